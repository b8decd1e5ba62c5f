"""The work of the stage `inputs`, which decompresses files and caches their shards, or searches parts of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from jprep.corpus.stages.inputs import GROUP, GROUP_FILES, PART, InputsStage
from jprep.pipeline.estimate.loads.source_scale import SourceScale
from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup, spread_of
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage

DECODING = 60e6
"""Bytes of text a second that a process decompresses and caches: assumed for sources whose sample is not compressed."""

CACHED = 0.4
"""Bytes of the cache for a byte of text: assumed for such sources."""

_TABLE = 200.0  # bytes that a table has for each shard or file


class DecodedSource(NamedTuple):
    """What a byte of the files of a source takes in the stage.

    Attributes:
        source: the source.
        cpu: seconds of CPU.
        cached: bytes of the cache.
    """

    source: SourceScale
    cpu: float
    cached: float

    @classmethod
    def measured(cls, source: SourceScale) -> DecodedSource:
        """Return what was measured: in the sample, the main process decompresses and caches shards as it cuts them."""
        if source.is_stand_in or not sum(task.weight for task in source.read):
            return cls(source, 1 / DECODING, CACHED)
        later = source.first_and_later[1]  # the first task of a file waits for two shards
        tasks = later if sum(task.weight for task in later) else source.read
        weight, cpu, cached = (sum(getattr(task, name) for task in tasks) for name in ("weight", "main", "consumed"))
        return cls(source, cpu / weight, cached / weight)

    def groups(self) -> Iterator[TaskGroup]:
        """Yield its tasks; tasks of about the same size are taken together."""
        sizes = dict[float, list[float]]()
        for size in self._task_sizes():
            sizes.setdefault(float(f"{size:.2g}"), []).append(size)
        for alike in sizes.values():
            yield self._group(len(alike), sum(alike) / len(alike))

    def _group(self, number: int, size: float) -> TaskGroup:
        each = self.source.shard_bytes
        shards = 0.0 if self.source.division == "parts" else max(0.0, size / each - 1)  # the first one is not cached
        cached = shards * each * self.cached
        return TaskGroup(number, size * self.cpu, 0.0, size, cached + _TABLE * (shards + 1), shards + 1)

    def _task_sizes(self) -> Iterator[float]:
        """Yield the bytes of each task, in order."""
        group, files = 0.0, 0
        for size in self.source.sizes:
            if self.source.division == "parts" and size >= 2 * PART:
                parts = math.ceil(size / PART)
                yield from [size / parts] * parts
                continue
            if files and (group + size > GROUP or files == GROUP_FILES):
                yield group
                group, files = 0.0, 0
            group, files = group + size, files + 1
        if files:
            yield group


def inputs_load(sources: Sequence[SourceScale], memory: int, serial: float) -> StageLoad | None:
    """Return the load of the stage; None if no source needs it.

    Args:
        sources: all sources.
        memory: bytes of a process that reads the sample.
        serial: seconds of CPU of the main process before the first task.
    """
    decoded = [DecodedSource.measured(source) for source in sources if source.division != "none"]
    if not decoded:
        return None
    groups = [group for each in decoded for group in each.groups()]
    cached = sum(max(0.0, group.written - _TABLE * group.files) * group.number for group in groups)
    tasks = [
        msgspec.structs.replace(task, cpu=task.main)
        for each in decoded
        if not each.source.is_stand_in
        for task in each.source.read
    ]
    spread = spread_of(MeasuredStage(InputsStage.name, tasks=tasks))
    return StageLoad("corpus", InputsStage.name, groups, serial, 0.0, memory, spread, {"data": cached})


def reading_group(source: SourceScale, group: TaskGroup) -> TaskGroup:
    """Return the tasks that read a source's documents, as they are after the stage `inputs`.

    Args:
        source: the source.
        group: the tasks as they were measured: the main process has decompressed the shards of compressed inputs.
    """
    if source.is_limited:  # the main process still does
        return group
    if source.division == "none":
        return group._replace(main=_created(source) / group.number)
    decoded = DecodedSource.measured(source)
    if source.division == "parts":
        return group._replace(main=0.0, cpu=group.cpu + decoded.cpu * source.total / group.number)
    return group._replace(main=0.0, read=decoded.cached * source.total / group.number)


def _created(source: SourceScale) -> float:
    """Return the seconds of CPU of the main process to create the tasks of a source.

    The first task of a file may take longer than others: then the beginning of the file is read.
    """
    first, each = (sum(task.main for task in tasks) / max(1, len(tasks)) for tasks in source.first_and_later)
    return len(source.sizes) * max(0.0, first - each) + source.count * each
