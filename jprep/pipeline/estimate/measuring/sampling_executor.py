"""An executor that runs a part of each stage's tasks in this process, and measures them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.engine.usage import output_size
from jprep.io.machine import child_cpu_seconds, peak_memory

T = TypeVar("T")

LIMITED = ("documents", "words")
"""Stages of which a part of the tasks is run. Later stages process what these have made."""


class MeasuredTask(msgspec.Struct, frozen=True):
    """A task that was run.

    Attributes:
        id: its id.
        weight: its weight.
        main: seconds of CPU of the main process to create it.
        cpu: seconds of CPU to run it.
        sizes: bytes of its outputs, by the name of their folder.
        rows: rows of its outputs, by the name of their folder.
        counts: counts of its receipt.
        consumed: bytes of the intermediate files that it reads and nobody needs after it.
    """

    id: str
    weight: int
    main: float
    cpu: float
    sizes: dict[str, int] = {}
    rows: dict[str, int] = {}
    counts: dict[str, int] = {}
    consumed: int = 0

    @property
    def group(self) -> str:
        """What the id has before its last number: the source, for tasks that read one."""
        return self.id.rpartition("-")[0]

    @property
    def written(self) -> int:
        """Bytes of all outputs."""
        return sum(self.sizes.values())


class MeasuredStage(msgspec.Struct):
    """A stage of which some tasks were run.

    Attributes:
        name: the stage.
        startup: seconds of CPU that the first task took longer than when it was repeated: loading dictionaries.
        memory: most bytes that the process has held until its end.
        tasks: the tasks that were run.
        skipped: groups of which not all tasks were run.
        files: files that its tasks wrote.
    """

    name: str
    startup: float = 0.0
    memory: int = 0
    tasks: list[MeasuredTask] = []
    skipped: set[str] = set()
    files: int = 0

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all its tasks."""
        return sum(task.cpu for task in self.tasks)

    @property
    def main(self) -> float:
        """Seconds of CPU of the main process to create all its tasks."""
        return sum(task.main for task in self.tasks)

    @property
    def written(self) -> int:
        """Bytes of all outputs."""
        return sum(task.written for task in self.tasks)


class SamplingExecutor:
    """Runs tasks in this process, of the stages in `LIMITED` only some; see `jprep.engine.runner.Executor`.

    Args:
        seconds: seconds of CPU for each group of tasks of a limited stage; at least one task is run.

    Attributes:
        stages: the stages that were run, in order.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stages: list[MeasuredStage] = []

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run the tasks of a stage, or some of them."""
        stage = MeasuredStage(job.stage.name)
        self.stages.append(stage)
        spent = dict[str, float]()
        while (created := _create(tasks)) is not None:
            task, main = created
            group = task.id.rpartition("-")[0]
            if stage.name in LIMITED and spent.get(group, 0.0) >= self._seconds:
                stage.skipped.add(group)
                continue
            receipt, measured = self._run(job, task, main, stage, first=group not in spent)
            stage.tasks.append(measured)
            stage.files += len(receipt.outputs)
            stage.memory = peak_memory()
            spent[group] = spent.get(group, 0.0) + measured.cpu
            yield task, receipt

    def _run(
        self, job: TaskRunner, task: Task, main: float, stage: MeasuredStage, *, first: bool
    ) -> tuple[Receipt, MeasuredTask]:
        cold = 0.0
        if first and not stage.tasks:  # once before, to load dictionaries
            _, cold = _timed(lambda: job.stage.run(task, job.root))
        consumed = sum(output_size(job.root, file) for file, _ in job.stage.consumes(task))
        receipt, cpu = _timed(lambda: job(task))
        stage.startup += max(0.0, cold - cpu)
        sizes, rows = dict[str, int](), dict[str, int]()
        for output in receipt.outputs:
            folder = Path(output.path).parent.name
            sizes[folder] = sizes.get(folder, 0) + output_size(job.root, output)
            rows[folder] = rows.get(folder, 0) + output.rows
        return receipt, MeasuredTask(task.id, task.weight, main, cpu, sizes, rows, receipt.counts, consumed)

    def close(self) -> None:
        """Do nothing: there are no processes."""


def _create(tasks: Iterator[Task]) -> tuple[Task, float] | None:
    begun = time.process_time()
    task = next(tasks, None)
    return None if task is None else (task, time.process_time() - begun)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    begun = time.process_time() + child_cpu_seconds()
    result = work()
    return result, time.process_time() + child_cpu_seconds() - begun
