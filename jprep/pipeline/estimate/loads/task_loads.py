"""The work of stages: how many tasks, and what each takes."""

from __future__ import annotations

import math
from typing import NamedTuple

from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage
from jprep.pipeline.steps import Step


class TaskGroup(NamedTuple):
    """Tasks that are alike.

    Attributes:
        number: number of tasks.
        cpu: seconds of CPU of each.
        main: seconds of CPU of the main process to create one.
        read: bytes that each reads.
        written: bytes that each writes.
        files: files that each writes.
    """

    number: int
    cpu: float
    main: float = 0.0
    read: float = 0.0
    written: float = 0.0
    files: float = 1.0


class StageLoad(NamedTuple):
    """The work of a stage.

    Attributes:
        step: the step that it belongs to.
        name: the stage.
        groups: its tasks, in order.
        serial: seconds of CPU of the main process before its first task.
        startup: seconds of CPU of each process before its first task.
        memory: bytes of a process that runs its tasks.
        spread: standard error of the seconds for a byte, relative to their mean.
        folders: bytes that all tasks write, by the name of the folder.
    """

    step: Step
    name: str
    groups: list[TaskGroup]
    serial: float = 0.0
    startup: float = 0.0
    memory: int = 0
    spread: float = 0.0
    folders: dict[str, float] = {}

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return sum(group.number for group in self.groups)

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all processes, without their start."""
        return self.serial + sum(group.number * (group.cpu + group.main) for group in self.groups)

    @property
    def read(self) -> float:
        """Bytes that all tasks read."""
        return sum(group.number * group.read for group in self.groups)

    @property
    def written(self) -> float:
        """Bytes that all tasks write."""
        return sum(group.number * group.written for group in self.groups)

    @property
    def files(self) -> int:
        """Files that all tasks write."""
        return round(sum(group.number * group.files for group in self.groups))


def equal_tasks(stage: MeasuredStage, factor: float, count: int, read: float = 0.0) -> TaskGroup:
    """Return equal tasks.

    Args:
        stage: what was measured.
        factor: how many times as much work all tasks have together.
        count: number of tasks.
        read: bytes that all tasks read together.
    """
    files = max(1.0, stage.files / max(1, len(stage.tasks)))
    totals = [stage.cpu, stage.main, stage.written]
    cpu, main, written = (factor * total / count for total in totals)
    return TaskGroup(count, cpu, main, read / count, written, files)


def spread_of(stage: MeasuredStage) -> float:
    """Return the standard error of the seconds for a unit of weight, relative to their mean; 0 for a single task.

    Tasks count by their weight.
    """
    weight = sum(task.weight for task in stage.tasks)
    if not weight or not stage.cpu or len(stage.tasks) < 2:
        return 0.0
    rate = stage.cpu / weight
    squares = sum((task.cpu - rate * task.weight) ** 2 for task in stage.tasks)
    return math.sqrt(squares) / stage.cpu


def folder_sizes(stage: MeasuredStage, factor: float) -> dict[str, float]:
    """Return the bytes that a stage writes to each folder, if it has so many times the work of the sample."""
    sizes: dict[str, float] = {}
    for task in stage.tasks:
        for folder, size in task.sizes.items():
            sizes[folder] = sizes.get(folder, 0.0) + factor * size
    return sizes
