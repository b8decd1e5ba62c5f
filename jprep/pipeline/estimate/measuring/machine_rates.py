"""Measure the rates of this machine that every stage depends on: disk, hashing, starting processes, empty tasks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from jprep.corpus.dedup.hashes import map_records, record_type, slice_between
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress, run_stage
from jprep.engine.stage import Result, Stage, Task
from jprep.io.atomic import write_atomic
from jprep.io.hashing import hash_content

_BLOCK = 3 << 20  # a multiple of the size of a record
_DISK_BYTES = 10 * _BLOCK
_SMALL_FILES, _EMPTY_TASKS, _MAPPINGS = 40, 60, 100


class MachineRates(msgspec.Struct, frozen=True):
    """What this machine reaches.

    Attributes:
        write: bytes a second to a new file, until it is on the disk.
        read: bytes a second from a file that is not in memory, where that can be measured.
        files: small files a second that are written, synced and renamed.
        hashing: bytes of an input a second that one process hashes.
        start: seconds of CPU to start a worker process.
        task: seconds of CPU of the main process for an empty task.
        mapping: seconds of CPU to map a file into memory and to search it.
    """

    write: float
    read: float
    files: float
    hashing: float
    start: float
    task: float
    mapping: float


def measure_machine(folder: Path) -> MachineRates:
    """Measure this machine for about a second.

    Args:
        folder: an existing directory on the disk to measure; what is written there is deleted.

    Raises:
        OSError: it cannot be written.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "data"
        write = _rate(_DISK_BYTES, lambda: _write(path))
        read = _rate(_DISK_BYTES, lambda: _read(path))
        hashing = _rate(_DISK_BYTES, lambda: _hash(path), cpu=True)
        files = _rate(_SMALL_FILES, lambda: _write_small(Path(name)))
        start, task, mapping = (
            _start_seconds(),
            _task_seconds(Path(name)),
            1 / _rate(_MAPPINGS, lambda: _map(path), cpu=True),
        )
        return MachineRates(write, read, files, hashing, start, task, mapping)


def _rate(amount: float, work: Any, *, cpu: bool = False) -> float:
    clock = time.process_time if cpu else time.monotonic
    begun = clock()
    work()
    return float(amount / max(clock() - begun, 1e-6))


def _write(path: Path) -> None:
    block = os.urandom(_BLOCK)
    with path.open("wb") as file:
        for _ in range(_DISK_BYTES // _BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> None:
    with path.open("rb") as file:
        _forget_cached(file)
        while file.read(_BLOCK):
            pass


def _forget_cached(file: BinaryIO) -> None:
    """Let the file be read from the disk, where the system can be asked for that."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _hash(path: Path) -> None:
    with path.open("rb") as file:
        hash_content(file)


def _map(path: Path) -> None:
    for _ in range(_MAPPINGS):
        slice_between(map_records(path, record_type()), "high", 0, 1)


def _write_small(folder: Path) -> None:
    for number in range(_SMALL_FILES):
        write_atomic(folder / f"small-{number}", b"receipt")


def _start_seconds() -> float:
    """Return the seconds of CPU to start a worker process and to end it."""
    before = os.times()
    command = [sys.executable, "-P", "-c", "import jprep.engine.executors.worker, numpy, pyarrow"]
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


class _Empty(Stage):
    """A stage of tasks that do nothing."""

    name = "empty"

    def fields(self) -> dict[str, Any]:
        return {}

    def tasks(self) -> Iterator[Task]:
        for number in range(_EMPTY_TASKS):
            yield Task(f"{number:04d}", None)

    def run(self, task: Task, root: Path) -> Result:
        return Result()


def _task_seconds(folder: Path) -> float:
    """Return the seconds of CPU of the main process for an empty task that a worker process runs."""
    with closing(Local(2)) as executor:
        begun = time.process_time()
        run_stage(_Empty(), folder, folder / "state", executor, SilentProgress())
        return (time.process_time() - begun) / _EMPTY_TASKS
