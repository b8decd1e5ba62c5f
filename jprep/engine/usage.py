"""What stages took: seconds, memory and disk of their tasks, to compare with a plan.

Outputs never depend on these figures. They are kept beside unfinished work and, for a finished output, in one small
file; all of it may be missing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.engine.output_kinds import STATE, USAGE
from jprep.engine.stage import Output, Receipt
from jprep.io.atomic import temporary_name
from jprep.io.machine import child_cpu_seconds, peak_memory

_RECORDS = "usage"
_SUFFIX = ".jsonl"


class TaskUsage(msgspec.Struct, frozen=True):
    """What one task took.

    Attributes:
        task: its id.
        wall: seconds.
        cpu: seconds of CPU of its process and its child processes.
        memory: most bytes that its process has held until then.
        written: bytes of its outputs.
    """

    task: str
    wall: float
    cpu: float
    memory: int
    written: int


class StageUsage(msgspec.Struct, frozen=True):
    """What one stage took.

    Attributes:
        tasks: number of tasks that were run; one that ran twice counts twice.
        wall: seconds from its begin to its end, summed over interrupted runs.
        cpu: seconds of CPU of its tasks.
        longest: seconds of its longest task.
        main: seconds of CPU of the main process besides tasks.
        memory: most bytes that a process which ran its tasks has held.
        written: bytes of its outputs.
        disk: bytes in the output directory at its end.
        files: number of files there.
    """

    tasks: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    longest: float = 0.0
    main: float = 0.0
    memory: int = 0
    written: int = 0
    disk: int = 0
    files: int = 0


class OutputUsage(msgspec.Struct, frozen=True):
    """What an output took.

    Attributes:
        wall: seconds of all runs that did some of its work.
        main: seconds of CPU of the main process, without the tasks that it ran itself.
        memory: most bytes that the main process has held.
        stages: its stages, by name, in order.
    """

    wall: float = 0.0
    main: float = 0.0
    memory: int = 0
    stages: dict[str, StageUsage] = {}

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all processes."""
        return self.main + sum(stage.cpu for stage in self.stages.values())

    @property
    def peak_disk(self) -> int:
        """The most bytes in the output directory at the end of a stage."""
        return max((stage.disk for stage in self.stages.values()), default=0)


def run_measured(task: str, run: Callable[[], Receipt], root: Path, receipts: Path) -> Receipt:
    """Run a task and append what it took to a file of this process, beside the directory of receipts.

    Args:
        task: the task's id.
        run: runs it.
        root: the directory that its outputs' paths are relative to.
        receipts: the stage's directory of receipts.
    """
    wall, cpu = time.monotonic(), _task_cpu()
    receipt = run()
    with contextlib.suppress(OSError):  # nothing depends on the record
        written = sum(output_size(root, output) for output in receipt.outputs)
        taken = TaskUsage(task, time.monotonic() - wall, _task_cpu() - cpu, peak_memory(), written)
        _append(receipts.parent / _RECORDS / f"{_process_name()}{_SUFFIX}", taken)
    return receipt


def output_size(root: Path, output: Output) -> int:
    """Return the bytes of an output; 0 if it is not there any more.

    Args:
        root: the directory that its path is relative to.
        output: a file, or a part of one.
    """
    if output.stop:
        return output.stop - output.start
    try:
        return (root / output.path).stat().st_size
    except FileNotFoundError:
        return 0


def _task_cpu() -> float:
    return time.process_time() + child_cpu_seconds()


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _append(path: Path, record: TaskUsage) -> None:
    path.parent.mkdir(exist_ok=True)  # not its parents: the output may be finished
    with path.open("ab") as file:
        file.write(b"\n" + msgspec.json.encode(record) + b"\n")  # an earlier write may have been cut


class TaskUsages(NamedTuple):
    """The records of a stage's tasks.

    Attributes:
        all: of all processes.
        own: those of this process.
    """

    all: list[TaskUsage]
    own: list[TaskUsage]


def read_records(state: Path) -> TaskUsages:
    """Return the records of the tasks of a stage; those that a killed process wrote in part are left out.

    Args:
        state: the stage's directory of unfinished work.
    """
    found, own = list[TaskUsage](), list[TaskUsage]()
    with contextlib.suppress(OSError):
        for path in sorted((state / _RECORDS).glob(f"*{_SUFFIX}")):
            records = list(_decode(path.read_bytes().split()))
            found += records
            own += records if path.name == _process_name() + _SUFFIX else []
    return TaskUsages(found, own)


def _decode(lines: Iterable[bytes]) -> Iterator[TaskUsage]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            yield msgspec.json.decode(line, type=TaskUsage)


class UsageRecorder:
    """Records what an output takes.

    Args:
        folder: the output directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worked, self._in_tasks = False, 0.0

    @contextlib.contextmanager
    def output(self) -> Iterator[None]:
        """Add the time of the block to the output's, if a stage did some work in it."""
        wall, cpu = time.monotonic(), time.process_time()
        outer = _active.set(self)
        try:
            yield
        finally:
            _active.reset(outer)
            if self._worked:
                taken = read_usage(self._folder)
                main = time.process_time() - cpu - self._in_tasks
                seconds, memory = taken.wall + time.monotonic() - wall, max(taken.memory, peak_memory())
                self._write(msgspec.structs.replace(taken, wall=seconds, main=taken.main + main, memory=memory))

    @contextlib.contextmanager
    def stage(self, name: str, state: Path) -> Iterator[None]:
        """Add the time of the block to a stage's, with the records of its tasks, if one was run in it."""
        before = read_records(state)
        wall, cpu = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            after = read_records(state)
            if len(after.all) > len(before.all):
                in_tasks = sum(each.cpu for each in after.own[len(before.own) :])
                self._worked, self._in_tasks = True, self._in_tasks + in_tasks
                main = time.process_time() - cpu - in_tasks
                self._add(name, after.all, time.monotonic() - wall, main)

    def _add(self, name: str, tasks: list[TaskUsage], wall: float, main: float) -> None:
        taken = read_usage(self._folder)
        earlier = taken.stages.get(name, StageUsage())
        disk, files = measure_folder(self._folder)
        stage = StageUsage(
            tasks=len(tasks),
            wall=earlier.wall + wall,
            cpu=sum(task.cpu for task in tasks),
            longest=max(task.wall for task in tasks),
            main=earlier.main + main,
            memory=max(task.memory for task in tasks),
            written=sum(task.written for task in tasks),
            disk=disk,
            files=files,
        )
        self._write(msgspec.structs.replace(taken, stages=taken.stages | {name: stage}))

    def _write(self, usage: OutputUsage) -> None:
        if (self._folder / STATE).is_dir():
            temporary = temporary_name(self._folder / USAGE)
            with contextlib.suppress(OSError):  # nothing depends on it, and it need not be on the disk
                try:
                    temporary.write_bytes(msgspec.json.encode(usage))
                    temporary.replace(self._folder / USAGE)
                finally:
                    temporary.unlink(missing_ok=True)  # what a full disk took of it


_active: ContextVar[UsageRecorder | None] = ContextVar("recorder", default=None)


def stage_usage(name: str, state: Path) -> contextlib.AbstractContextManager[None]:
    """Record the usage of a stage, which runs in the block, for the output that is being made.

    Args:
        name: the stage.
        state: its directory of unfinished work.
    """
    recorder = _active.get()
    return recorder.stage(name, state) if recorder else contextlib.nullcontext()


def read_usage(folder: Path) -> OutputUsage:
    """Return what the output in a directory took until now; nothing if that is not known."""
    try:
        return msgspec.json.decode((folder / USAGE).read_bytes(), type=OutputUsage)
    except (OSError, msgspec.DecodeError):
        return OutputUsage()


def measure_folder(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files below a directory; a file with several names counts once."""
    sizes = dict[tuple[int, int], int]()
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # deleted meanwhile
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - thousands of files
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values()), len(sizes)
