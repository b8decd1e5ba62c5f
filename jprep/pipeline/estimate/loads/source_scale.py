"""How many times as large each source is as its sample, and into how many tasks it is cut."""

from __future__ import annotations

import math
import statistics

from jprep.pipeline.estimate.measuring.calibration import Calibration
from jprep.pipeline.estimate.measuring.input_division import Division
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes
from jprep.pipeline.estimate.measuring.sampling import SHARD_MB, SHARDS
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage, MeasuredTask
from jprep.pipeline.recipe import Recipe

_SMALL = 1 << 20  # bytes of inputs that share a task
_MB = 1_000_000


class SourceScale:
    """The scale of one source.

    Args:
        number: the number of the source in the recipe.
        recipe: the recipe.
        calibration: what the sample took.
        sizes: the sizes of the source's files.

    Attributes:
        number: as given.
        read: the tasks of the sample that read the source.
        factor: how many times as much the whole source is.
        count: number of tasks that read the whole source.
        total: bytes of the source that are read, as the sample stores them.
        sizes: bytes of each file, likewise.
        division: how its files are read before the first stage.
        is_limited: whether only its first shards are read.
        is_stand_in: whether the sample was not compressed as the source is.
        shard_ratio: how many times as large its shards are as those of the sample.
    """

    def __init__(self, number: int, recipe: Recipe, calibration: Calibration, sizes: SourceSizes) -> None:
        self.number, self._origins = number, calibration.origins
        self.sizes = [calibration.expansion[number] * size for size in sizes.sizes]
        self.division: Division = calibration.divisions[number] if calibration.divisions else "none"
        self.is_stand_in = sizes.name in calibration.stand_ins
        stage = next(stage for stage in calibration.steps["corpus"].stages if stage.name == "documents")
        self.read = self.tasks(stage)
        self.shard_ratio = calibration.shard_ratio[number]
        limit = recipe.corpus.sources[number].shards
        self.is_limited = bool(limit)
        whole = sum(self.sizes)
        self.total = min(whole, limit * self.shard_bytes) if limit else whole
        self._complete = number in calibration.whole and not limit and not self._was_cut(stage)
        weight = sum(task.weight for task in self.read)
        self.factor = 1.0 if self._complete or not weight else self.total / weight
        self.count = min(limit, self._count()) if limit else self._count()

    def tasks(self, stage: MeasuredStage) -> list[MeasuredTask]:
        """Return the tasks of a stage that belong to the source; their ids begin with the number of a sampled file."""
        return [task for task in stage.tasks if self._origins[int(task.id[:4])] == self.number]

    @property
    def first_and_later(self) -> tuple[list[MeasuredTask], list[MeasuredTask]]:
        """The tasks of the sample that read the beginnings of its files, and all others."""
        first = list({task.group: task for task in reversed(self.read)}.values())
        return first, [task for task in self.read if task not in first]

    def factor_of(self, stage: MeasuredStage) -> float:
        """Return how many times as much a stage does for the source as was measured.

        The stage may have processed only a part of what the sample of the source had.
        """
        measured = sum(task.weight for task in self.tasks(stage))
        characters = sum(task.counts.get("total.characters", 0) for task in self.read)
        if stage.name == "documents" or not measured:
            return self.factor
        return self.factor * characters / measured

    def _was_cut(self, stage: MeasuredStage) -> bool:
        """Return whether the sampled files were not read to their ends."""
        groups = [task.group for task in self.read]
        return any(group in stage.skipped or groups.count(group) >= SHARDS for group in groups)

    @property
    def shard_bytes(self) -> float:
        """Bytes of a shard of the whole source, as the sample stores them."""
        if not self.read:
            return float(_SMALL)
        weights = sorted(task.weight for task in self.read)
        full = statistics.mean(weights[len(weights) // 2 :])  # the last shards of files are smaller
        text = statistics.mean(task.counts.get("total.bytes", 0) for task in self.read)
        wanted = SHARD_MB * _MB * self.shard_ratio
        if self.shard_ratio > 1 and len(weights) == len({task.group for task in self.read}):
            return max(full, wanted * full / max(text, full))  # files of the sample that are smaller than a shard
        return max(1.0, full * max(1.0, wanted / max(SHARD_MB * _MB, text)))

    def _count(self) -> int:
        if self._complete and self.shard_ratio == 1:
            return max(1, len(self.read))
        each = self.shard_bytes
        alone = min(each, _SMALL)
        large = sum(math.ceil(size / each) for size in self.sizes if size >= alone)
        small = sum(size for size in self.sizes if size < alone)
        share = self.total / max(1.0, sum(self.sizes))
        return max(1, round(share * (large + math.ceil(small / _SMALL))))
