"""The stages that merge counted runs: sum ranges of units independently, then put the most frequent units together.

A unit is in one range, and ranges are in code point order. So the most frequent units are among the most frequent ones
of each range, and ties are broken as if all runs were merged at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import list_outputs, sum_counts
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import file_sha256
from jprep.io.verified_files import read_verified, verify_file
from jprep.tokenizer.counting.results import (
    FOLDER,
    TopUnits,
    UnitTotals,
    read_characters,
    sum_units,
    write_characters,
    write_results,
)
from jprep.tokenizer.counting.sorted_runs import KeyRange, UnitRows, commit_run, divide_keys, merge_runs, read_run
from jprep.tokenizer.counting.stages import KEYS, RUNS, SAMPLES, CountUnitsStage

UNITS, CHARACTERS = "units", "characters"

SUMMING = "summing"
"""The name of the stage that sums the units of a corpus."""

RANGE_ROWS = 1 << 20
"""About how many rows of runs are in a range."""

_RANGE = 256  # batches of runs, about so many rows, in a range
_MAX_RANGES = 512


class SumStage(Stage):
    """Sum the counts of all runs: each task sums one range of units.

    Every process that runs a task verifies all runs once: a range is a part of each.

    Args:
        counting: the stage before.
        counted: its receipts.
        max_words: number of units to keep.
        root: the directory that output paths are relative to.
        name: the stage's name.
    """

    name = SUMMING
    title = "adding up counts"

    def __init__(
        self,
        counting: Stage,
        counted: list[Receipt],
        max_words: int,
        root: Path,
        *,
        name: str = SUMMING,
    ) -> None:
        self.name, self.made_from, self.max_words = name, fingerprint(counting.fields()), max_words
        self.runs = [output for output in list_outputs(counted) if output.folder == RUNS]
        self._keys = [output for output in list_outputs(counted) if output.folder == KEYS]
        self._root = root

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the tasks are made from."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_keys", "_ranges")}

    @cached_property
    def _ranges(self) -> list[KeyRange]:
        """The ranges; work of earlier versions has no keys, and becomes one range."""
        files = (read_verified(self._root / file.path, file.sha256) for file in self._keys if file.rows)
        return divide_keys((key for data in files for key in data.split(b"\n")), _RANGE, _MAX_RANGES)

    def fields(self) -> dict[str, Any]:
        """Return what was counted, and how many units are kept."""
        return {"counting": self.made_from, "max_words": self.max_words}

    def total(self) -> int:
        """Return the number of ranges."""
        return len(self._ranges)

    def tasks(self) -> Iterator[Task]:
        """Yield a task per range."""
        runs = [output.sha256 for output in self.runs]
        for number, keys in enumerate(self._ranges):
            limits = [None if key is None else key.hex() for key in keys]
            yield Task(f"{number:04d}", keys, 1, fingerprint({"runs": runs, "range": limits}))

    def run(self, task: Task, root: Path) -> Result:
        """Sum one range."""
        units = sum_units(self.merged(root, task.payload), self.max_words)
        path = f"{self.name}/{UNITS}/{task.id}"
        rows = commit_run(root / path, [units.top.in_order()])
        characters = write_characters(root, f"{self.name}/{CHARACTERS}/{task.id}", units.characters)
        return Result([Output(path, rows, file_sha256(root / path)), characters], units.counts)

    def merged(self, root: Path, keys: KeyRange) -> Iterator[UnitRows]:
        """Yield the units of a range in all runs."""
        runs = [verify_file(root / output.path, output.sha256) for output in self.runs]
        yield from merge_runs(runs, root / self.name, keys)


class SingleTaskStage(Stage):
    """A stage with one task, which puts the ranges of a `SumStage` together.

    Args:
        summing: the stage before.
        files: the files that the task reads; they may be deleted afterwards.

    Attributes:
        max_words: how many units are kept.
        files: the files that the task reads.
    """

    def __init__(self, summing: SumStage, files: list[Output]) -> None:
        self._fields, self.max_words, self.files = summing.fields(), summing.max_words, files

    def fields(self) -> dict[str, Any]:
        """Return what was counted, and how many units are kept."""
        return self._fields

    def total(self) -> int:
        """Return the number of tasks, 1."""
        return 1

    def tasks(self) -> Iterator[Task]:
        """Yield the only task."""
        yield Task("results", None, 1, fingerprint({"files": [output.sha256 for output in self.files]}))

    def consumes(self, task: Task) -> Iterator[tuple[Output, list[str]]]:
        """Yield each file with the only task."""
        yield from ((file, [task.id]) for file in self.files)

    def files_in(self, folder: str) -> list[Output]:
        """Return the files in the folders of this name."""
        return [file for file in self.files if file.folder == folder]


class MergeCountsStage(SingleTaskStage):
    """Put the ranges together, drop the rarest units, and write the input of the training.

    Args:
        summing: the stage before.
        counted: receipts of the first stage.
        summed: receipts of the stage before.
    """

    name = FOLDER
    title = "merging counts"

    def __init__(self, summing: SumStage, counted: list[Receipt], summed: list[Receipt]) -> None:
        samples = [output for output in list_outputs(counted) if output.folder == SAMPLES]
        super().__init__(summing, [*samples, *list_outputs(summed)])
        self._counts = sum_counts([receipt.counts for receipt in summed])

    def run(self, task: Task, root: Path) -> Result:
        """Select from the units of all ranges, in order."""
        top, characters = select_top(self.files_in(UNITS), self.max_words, root), Counter[int]()
        for file in self.files_in(CHARACTERS):
            characters.update(read_characters(verify_file(root / file.path, file.sha256)))
        distinct, total = (self._counts.get(name, 0) for name in ("units.distinct", "units.total"))
        samples = (read_verified(root / file.path, file.sha256) for file in self.files_in(SAMPLES))
        return write_results(root, UnitTotals(top, characters, distinct, total), samples)


def select_top(files: Iterable[Output], most: int, root: Path) -> TopUnits:
    """Return the most frequent units of all ranges, which come in order."""
    top = TopUnits(most)
    for file in files:
        for units, counts in read_run(verify_file(root / file.path, file.sha256)):
            top.add(units, counts)
    return top


STAGES = (CountUnitsStage.name, SUMMING, MergeCountsStage.name)
"""The names of the stages that count the units of a corpus."""
