"""Work on a Ray cluster whose nodes are killed while a task runs, a number of times in each stage."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.executors.local import Local
from jprep.engine.executors.ray.executor import Ray
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from tests.fakes.ray_cluster import RayCluster

OUTPUTS = ("corpus", "tokenizer", "dataset")


class HeldStage(Stage):
    """A stage whose tasks end only after some nodes were killed.

    Args:
        stage: the stage.
        kills: the number of kills before which each task does not end, by its id.
        folder: of files `begun-TASK-PID` of running tasks, and of the file `kills`, one byte for each kill.
    """

    def __init__(self, stage: Stage, kills: dict[str, int], folder: Path) -> None:
        self.name = stage.name
        self._stage, self._kills, self._folder = stage, kills, folder

    def fields(self) -> dict[str, Any]:
        return self._stage.fields()

    def total(self) -> int:
        return self._stage.total()

    def tasks(self) -> Iterator[Task]:
        return self._stage.tasks()

    def consumes(self, task: Task) -> Iterable[tuple[Output, Sequence[str]]]:
        return self._stage.consumes(task)

    def run(self, task: Task, root: Path) -> Result:
        mark = self._folder / f"begun-{task.id}-{os.getpid()}"
        mark.touch()
        hold_first = random.random() < 0.5
        if hold_first:
            self._hold(task)
        result = self._stage.run(task, root)
        if not hold_first:
            self._hold(task)
        mark.unlink()
        return result

    def _hold(self, task: Task) -> None:
        while (self._folder / "kills").stat().st_size < self._kills[task.id]:
            time.sleep(0.05)

    def close(self) -> None:
        self._stage.close()


class RecordingLocal(Local):
    """The executor `local`, which records the stages that it runs.

    Attributes:
        stages: their names, each with that of the output's directory: `corpus/words`.
    """

    stages: set[str]

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        self.stages = {*getattr(self, "stages", ()), stage_name(job)}
        yield from super().map(job, tasks)


class HoldingRay(Ray):
    """The executor `ray`, with tasks that are held.

    Attributes:
        folder: see `HeldStage`; set before use.
        kills: nodes to kill in each stage.
        killed: nodes that were killed, by stage.
    """

    folder: Path
    kills: int
    cluster: RayCluster

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        self.killed: Counter[str] = getattr(self, "killed", Counter())
        listed = list(tasks)
        (self.folder / "kills").write_bytes(b"")
        held = {task.id: self.kills * (number + 1) // len(listed) for number, task in enumerate(listed)}
        stage = HeldStage(job.stage, held, self.folder)
        self._stage, self._next = stage_name(job), 0.0
        self._stopping = self._kill
        yield from super().map(msgspec.structs.replace(job, stage=stage), iter(listed))
        print(self._stage, self.killed[self._stage], flush=True)

    def _kill(self) -> bool:
        """Kill one or more nodes now and then while tasks run on them; `Ray` calls this several times a second."""
        left = self.kills - self.killed[self._stage]
        running = self._running() if left else []
        if running and time.monotonic() >= self._next:
            random.shuffle(running)
            for worker in running[: random.randint(1, left)]:
                self._kill_node_of(worker)
            self._next = time.monotonic() + random.random()
        return False

    def _kill_node_of(self, worker: int) -> None:
        with suppress(ProcessLookupError):
            self.cluster.kill_node_of(worker)
            self.killed[self._stage] += 1
            with (self.folder / "kills").open("ab") as file:
                file.write(b"k")
            self.cluster.add_node()

    def _running(self) -> list[int]:
        """Return the processes of tasks that run."""
        found = []
        for mark in self.folder.glob("begun-*"):
            number = int(mark.name.rpartition("-")[2])
            try:
                os.kill(number, 0)
                found.append(number)
            except ProcessLookupError:
                mark.unlink(missing_ok=True)
        return found


def stage_name(job: TaskRunner) -> str:
    """Return the name of a stage with that of the output's directory, which has one of the names of the three steps."""
    return f"{next(name for name in OUTPUTS if name in job.root.parts[-2:])}/{job.stage.name}"
