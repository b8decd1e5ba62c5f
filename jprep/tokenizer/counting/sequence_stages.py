"""The stages that count sequences of frequent words, once all words are counted: see `sequences`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.engine.runner import list_outputs, sum_counts
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.verified_files import verify_file
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.merging import UNITS, SingleTaskStage, SumStage, select_top
from jprep.tokenizer.counting.results import write_units
from jprep.tokenizer.counting.sequences import VERSION, SequenceFinder, frequent_words, symbol_count
from jprep.tokenizer.counting.sorted_runs import exact_sum
from jprep.tokenizer.counting.stages import RUNS, CountUnitsStage, count_into_run
from jprep.tokenizer.counting.unit_counter import UnitCounter

SUMMING = "sequence-summing"
"""The name of the stage between the two of this module, a `SumStage`."""


class CountSequencesStage(Stage):
    """Count the sequences of a corpus: each task counts consecutive shards into one sorted run.

    Args:
        counting: the stage that counted the words of the corpus.
        words: the file of words.
        config: defines units and the number of frequent words.
    """

    name = "sequence-counting"
    title = "counting sequences"
    runs_folder = f"{name}/{RUNS}"

    def __init__(self, counting: CountUnitsStage, words: Output, config: TokenizerConfig) -> None:
        self._counting, self._words, self._config = counting, words, config

    def fields(self) -> dict[str, Any]:
        """Return what defines a sequence."""
        symbols = {"sequences": VERSION, "symbols": symbol_count(self._config)}
        return self._counting.fields() | symbols | {"words": self._words.sha256}

    def total(self) -> int:
        """Return the bytes of text."""
        return self._counting.total()

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks that counted the words."""
        return self._counting.tasks()

    def run(self, task: Task, root: Path) -> Result:
        """Count a group of shards."""
        finder = self._finder(root)

        def count(tally: UnitCounter) -> None:
            for shard in task.payload:
                for batch in self._counting.batches(shard, ["words"]):
                    tally.add_values(finder.find(batch["words"]))

        return Result(count_into_run(root, self.name, task.id, None, self.name, count).outputs, {})

    def _finder(self, root: Path) -> SequenceFinder:
        words = frequent_words(verify_file(root / self._words.path, self._words.sha256), self._config)
        return SequenceFinder(words, self._config)


class SelectSequencesStage(SingleTaskStage):
    """Put the ranges together, and drop the rarest sequences.

    Args:
        summing: the stage before.
        summed: its receipts.
    """

    name = "sequence-merging"
    title = "merging counts"
    path = f"{name}/sequences.tsv"

    def __init__(self, summing: SumStage, summed: list[Receipt]) -> None:
        super().__init__(summing, list_outputs(summed))
        self._total = sum_counts([receipt.counts for receipt in summed]).get("units.total", 0)

    def run(self, task: Task, root: Path) -> Result:
        """Select from the sequences of all ranges, in order."""
        kept = select_top(self.files_in(UNITS), self.max_words, root).rows()
        cut = self._total - exact_sum(kept[1])
        return Result(
            [write_units(root, self.path, kept)], {"sequences.total": self._total, "sequences.cut.total": cut}
        )


STAGES = (CountSequencesStage.name, SUMMING, SelectSequencesStage.name)
"""The names of the stages that count sequences."""
