"""The two stages of counting: each part of the corpus for itself, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jprep.corpus.api import Corpus
from jprep.corpus.shard_reader import CorpusShard, read_batches, shard_of
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import list_outputs
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.verified_files import verify_file
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.results import FOLDER, write_results
from jprep.tokenizer.counting.sample import AIM, ParagraphSample
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, commit_run, merged
from jprep.tokenizer.counting.unit_counter import UnitCounter
from jprep.tokenizer.counting.units import VERSION, pieces
from jprep.tokenizer.counting.unsegmented import count_pieces

RUNS, SAMPLES = "runs", "samples"
_TASKS = 150
_LEAST = 4 << 20  # bytes of text that a task is worth


class CountStage(Stage):
    """Counts the units of a corpus's parts: a task takes neighbouring parts and makes one sorted run.

    Args:
        corpus: what is counted.
        config: what a unit is.
    """

    name = "counting"

    def __init__(self, corpus: Corpus, config: TokenizerConfig) -> None:
        self._folder, self._config = corpus.folder, config
        self._made_from = corpus.manifest.fingerprint
        self._has_words = bool(corpus.manifest.totals.get("words"))
        column = "words" if self._has_words else "text"
        self._parts = [shard_of(corpus.folder, file, column) for file in corpus.manifest.parts]
        self._bytes = sum(part.size for part in self._parts)
        self._stride = max(1, self._bytes // AIM)

    def fields(self) -> dict[str, Any]:
        """The corpus, and what a unit is in it."""
        config = self._config
        kind = {"pattern": "gpt2" if config.model == "byte-bpe" else "scripts", "regex": version("regex")}
        policies = {"spaces": config.spaces, "digits": config.digits, "newline": config.newline}
        boundaries = kind if config.boundaries == "none" else {}
        return {"corpus": self._made_from, "units": VERSION, "stride": self._stride, **policies, **boundaries}

    def total(self) -> int:
        """Bytes of text."""
        return self._bytes

    def tasks(self) -> Iterator[Task]:
        """A task for each group of neighbouring parts, so large that there are not very many."""
        for number, group in enumerate(self._groups()):
            digest = fingerprint({"parts": [part.sha256 for part in group]})
            yield Task(f"{number:04d}", group, sum(part.size for part in group), digest)

    def _groups(self) -> Iterator[list[CorpusShard]]:
        least, group, size = max(_LEAST, self._bytes // _TASKS), list[CorpusShard](), 0
        for part in self._parts:
            group, size = [*group, part], size + part.size
            if size >= least:
                yield group
                group, size = [], 0
        if group:
            yield group

    def run(self, task: Task, root: Path) -> Result:
        """Count a few parts."""
        folder = root / self.name / RUNS
        sample = ParagraphSample(self._stride, task.weight)
        with SpilledRuns(folder, task.id) as spill:
            tally = UnitCounter(self._config, spill, str(self._folder))
            for part in task.payload:
                self._count(part, tally, sample)
            run, taken = f"{self.name}/{RUNS}/{task.id}", f"{self.name}/{SAMPLES}/{task.id}"
            rows = commit_run(root / run, tally.blocks())
        write_atomic(root / taken, sample.data())
        outputs = [
            Output(run, rows, file_sha256(root / run)),
            Output(taken, sample.taken, file_sha256(root / taken)),
        ]
        return Result(outputs, {"paragraphs.total": sample.paragraphs, "paragraphs.sampled": sample.taken})

    def _count(self, part: CorpusShard, tally: UnitCounter, sample: ParagraphSample) -> None:
        from_text = self._config.boundaries == "none"
        columns = ["text"] * from_text + ["words"] * self._has_words
        for batch in read_batches(self._folder, part, columns):
            sample.add(batch["words" if self._has_words else "text"])
            if from_text:
                tally.add_counts(count_pieces(batch["text"].to_pylist(), self._config))
            else:
                tally.add_values(pieces(batch["words"], newline_is_space=self._config.newline == "space"))


class MergeCountsStage(Stage):
    """Puts all runs together, cuts the rarest units, and writes what training needs.

    Args:
        counting: the stage before.
        counted: its receipts.
        max_words: how many units stay.
    """

    name = FOLDER

    def __init__(self, counting: CountStage, counted: list[Receipt], max_words: int) -> None:
        self._made_from = fingerprint(counting.fields())
        self._outputs, self._max_words = list_outputs(counted), max_words

    def fields(self) -> dict[str, Any]:
        """What was counted, and how much of it stays."""
        return {"counting": self._made_from, "max_words": self._max_words}

    def total(self) -> int:
        """One task."""
        return 1

    def tasks(self) -> Iterator[Task]:
        """One task."""
        yield Task("0000", None, 1, fingerprint({"runs": [output.sha256 for output in self._outputs]}))

    def run(self, task: Task, root: Path) -> Result:
        """Merge."""
        for output in self._outputs:
            verify_file(root / output.path, output.sha256)
        runs, samples = ([root / out.path for out in self._outputs if out.folder == kind] for kind in (RUNS, SAMPLES))
        return write_results(root, merged(runs, root / self.name), samples, self._max_words)
