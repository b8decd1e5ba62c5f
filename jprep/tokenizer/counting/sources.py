"""Count several sources: each is counted as it is, then its counts are multiplied so that the sources' shares hold.

Counts are multiplied by integers, so none is rounded: within a source, all frequencies keep their proportions. The
factors are so large that rounding them changes no share by more than a thousandth of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from jprep.corpus.api import Corpus
from jprep.engine.runner import list_outputs
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.verified_files import verify_file
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.merging import MergeCountsStage, SumStage
from jprep.tokenizer.counting.sample import AIM
from jprep.tokenizer.counting.sorted_runs import KeyRange, UnitRows, merge_blocks, merge_runs
from jprep.tokenizer.counting.stages import RUNS, SAMPLES, CountUnitsStage
from jprep.tokenizer.counting.units import refuse_overflow

COUNTED = "units.counted"
"""The counter of a task's units, before they are multiplied."""

_PRECISION = 1000


class CountedSource(NamedTuple):
    """A source to be counted.

    Attributes:
        name: its name.
        share: its weight.
        corpus: the corpus that it is in.
        left_out: names of other sources in the corpus.
        config: defines its units: `boundaries = "none"` for raw text.
    """

    name: str
    share: Fraction
    corpus: Corpus
    left_out: Sequence[str]
    config: TokenizerConfig


class CountSourcesStage(Stage):
    """Count the units of several sources: each task counts consecutive shards of one source into a sorted run.

    Args:
        sources: the sources.
    """

    name = CountUnitsStage.name
    runs_folder = CountUnitsStage.runs_folder

    def __init__(self, sources: Sequence[CountedSource]) -> None:
        whole = sum((source.share for source in sources), Fraction())
        self._stages = {
            f"{number:03d}": CountUnitsStage(
                source.corpus, source.config, source.left_out, max(1, int(AIM * source.share / whole))
            )
            for number, source in enumerate(sources)
        }

    def fields(self) -> dict[str, Any]:
        """Return what each source is counted from."""
        return {"sources": [stage.fields() for stage in self._stages.values()]}

    def total(self) -> int:
        """Return the bytes of text."""
        return sum(stage.total() for stage in self._stages.values())

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of one source after another; their ids begin with the number of the source."""
        for number, stage in self._stages.items():
            for task in stage.tasks():
                yield Task(f"{number}-{task.id}", task.payload, task.weight, task.digest)

    def run(self, task: Task, root: Path) -> Result:
        """Count a group of shards."""
        result, units = self._stages[task.id.partition("-")[0]].count(task, root)
        return Result(result.outputs, result.counts | {COUNTED: units})


class SourceReceipts(NamedTuple):
    """The receipts of a source's tasks.

    Attributes:
        units: occurrences of all units.
        runs: its runs.
        samples: the parts of its sample.
    """

    units: int
    runs: list[Output]
    samples: list[Output]


def receipts_of(receipts: Sequence[Receipt], source: int) -> SourceReceipts:
    """Return what the tasks of a source have counted."""
    own = [receipt for receipt in receipts if receipt.task.startswith(f"{source:03d}-")]
    outputs = list_outputs(own)
    runs, samples = ([output for output in outputs if output.folder == kind] for kind in (RUNS, SAMPLES))
    return SourceReceipts(sum(receipt.counts.get(COUNTED, 0) for receipt in own), runs, samples)


def find_factors(shares: Sequence[Fraction], units: Sequence[int]) -> list[int]:
    """Return by what the counts of each source are multiplied, so that the shares of the products are as given.

    Args:
        shares: weight of each source.
        units: units of each source; none is 0.
    """
    exact = [share / count for share, count in zip(shares, units, strict=True)]
    return [round(_PRECISION * factor / min(exact)) for factor in exact]


class SumSourcesStage(SumStage):
    """Sum the counts of all runs, multiplied by the factors of their sources.

    Args:
        counting: the stage before.
        counted: its receipts.
        sources: what the tasks of each source have counted.
        factors: the factor of each source.
        max_words: number of units to keep.
        root: the directory that output paths are relative to.
    """

    def __init__(
        self,
        counting: CountSourcesStage,
        counted: list[Receipt],
        sources: Sequence[SourceReceipts],
        factors: Sequence[int],
        max_words: int,
        root: Path,
    ) -> None:
        super().__init__(counting, counted, max_words, root)
        self._runs, self._factors = [source.runs for source in sources], list(factors)
        total = sum(source.units * factor for source, factor in zip(sources, factors, strict=True))
        refuse_overflow(total, "all sources, multiplied for their weights")

    def fields(self) -> dict[str, Any]:
        """Return what was counted, the factors, and how many units are kept."""
        return super().fields() | {"factors": self._factors}

    def merged(self, root: Path, keys: KeyRange) -> Iterator[UnitRows]:
        """Yield the units of a range in all sources."""
        with ExitStack() as stack:
            streams = [
                stack.enter_context(closing(self._multiplied(runs, factor, root, keys)))
                for runs, factor in zip(self._runs, self._factors, strict=True)
            ]
            yield from merge_blocks(streams)

    def _multiplied(
        self, runs: list[Output], factor: int, root: Path, keys: KeyRange
    ) -> Generator[UnitRows, None, None]:
        paths = [verify_file(root / output.path, output.sha256) for output in runs]
        for units, counts in merge_runs(paths, root / self.name, keys):
            yield units, counts * factor


class MergeSourcesStage(MergeCountsStage):
    """Put the ranges together, as `MergeCountsStage`; the samples of the sources stay for their figures."""

    def consumes(self, task: Task) -> Iterator[tuple[Output, list[str]]]:
        """Yield the files of the ranges."""
        yield from ((file, tasks) for file, tasks in super().consumes(task) if file.folder != SAMPLES)
