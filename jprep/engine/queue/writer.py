"""Write the queue of a stage."""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.executors.environment import describe_environment
from jprep.engine.queue.manifest import FAILURES, FORMAT, LOGS, MANIFEST, Chunk, QueueManifest
from jprep.engine.queue.unpickler import unpickle
from jprep.engine.runner import TaskRunner, finished_tasks
from jprep.engine.stage import Task
from jprep.errors import ConfigError, DamagedError
from jprep.io.atomic import atomic_path, write_atomic
from jprep.io.os_errors import write_error

LENGTH = struct.Struct("<Q")
"""Precedes each pickled task."""

_MAX_BYTES = 1 << 22  # of a chunk, unless one task is larger
_MAX_TASKS = 64
_GROWTH = 256  # chunks of one size, before they get larger


class QueuedTask(msgspec.Struct, frozen=True):
    """What the command that waits for a task keeps of it: not its payload.

    Attributes:
        chunk: the number of its chunk.
        weight: its share of the stage's total.
        digest: hash of its input.
    """

    chunk: int
    weight: int
    digest: str

    def task(self, name: str) -> Task:
        """Return the task without its payload."""
        return Task(name, None, self.weight, self.digest)


class WrittenQueue(msgspec.Struct, frozen=True):
    """A queue that this process has written.

    Attributes:
        manifest: its description.
        tasks: its tasks by id.
    """

    manifest: QueueManifest
    tasks: dict[str, QueuedTask]


class _Chunks:
    """Writes tasks to a file in chunks: small ones first, so that few tasks spread over many workers."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.chunks: list[Chunk] = []
        self.tasks: dict[str, QueuedTask] = {}
        self._hash, self._begin, self._size, self._count = hashlib.sha256(), 0, 0, 0

    def add(self, task: Task) -> None:
        """Append a task."""
        data = pickle.dumps(task, protocol=5)
        if not self.tasks:
            _refuse_unreadable(data)
        if self._count and (self._count >= self._limit() or self._size + len(data) > _MAX_BYTES):
            self._end()
        for piece in (LENGTH.pack(len(data)), data):
            self._file.write(piece)
            self._hash.update(piece)
            self._size += len(piece)
        self.tasks[task.id] = QueuedTask(len(self.chunks), task.weight, task.digest)
        self._count += 1

    def _limit(self) -> int:
        """Return the number of tasks of this chunk: a 256th of those before it, between 1 and 64."""
        return max(1, min(_MAX_TASKS, len(self.tasks) // _GROWTH))

    def _end(self) -> None:
        self.chunks.append(Chunk(self._begin, self._size, self._count, self._hash.hexdigest()))
        self._hash, self._begin, self._size, self._count = hashlib.sha256(), self._begin + self._size, 0, 0

    def finish(self) -> None:
        """End the last chunk."""
        if self._count:
            self._end()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_queue(folder: Path, runner: TaskRunner, tasks: Iterator[Task]) -> WrittenQueue:
    """Write tasks, as they are created, and the stage, but not the manifest: `publish_queue` opens the queue.

    Args:
        folder: the folder of the queue.
        runner: runs a task.
        tasks: the tasks. Their payloads are not kept.

    Raises:
        MachineError: the disk is full or not writable.
        ConfigError: the stage or a task cannot be read by other processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = os.urandom(8).hex()
    pickled, file = pickle.dumps(runner, protocol=5), folder / f"tasks-{name}.bin"
    _refuse_unreadable(pickled)
    with atomic_path(file) as temporary:
        chunks = _Chunks(temporary)
        try:
            for task in tasks:
                chunks.add(task)
            chunks.finish()
        finally:
            chunks.close()
    stage = f"stage-{name}.pickle"
    write_atomic(folder / stage, pickled)
    manifest = QueueManifest(
        format=FORMAT,
        jprep=version("jprep"),
        id=name,
        stage=runner.stage.name,
        fingerprint=runner.fingerprint,
        root=os.path.relpath(runner.root.absolute(), folder.absolute()),
        folder=str(Path.cwd()),
        earlier=len(finished_tasks(runner.receipts)),
        runner=stage,
        runner_sha256=hashlib.sha256(pickled).hexdigest(),
        tasks=file.name,
        chunks=chunks.chunks,
        environment=describe_environment(),
    )
    return WrittenQueue(manifest, chunks.tasks)


def _refuse_unreadable(data: bytes) -> None:
    """Refuse now what no worker would read: a stage or a task with an object of another library."""
    try:
        unpickle(data, "")
    except DamagedError as error:
        fix = "use --executor local, and report it"
        raise ConfigError(f"this stage cannot be queued: {error.what}", where="--executor", fix=fix) from error


def publish_queue(folder: Path, queue: QueueManifest) -> None:
    """Open a written queue, in place of another one.

    Raises:
        MachineError: the disk is full or not writable.
    """
    try:
        for name in (FAILURES, LOGS):
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(error, folder) from error
    write_atomic(folder / MANIFEST, encode_checksummed(queue))
    remove_other_files(folder, queue)


def remove_other_files(folder: Path, queue: QueueManifest) -> None:
    """Delete the files of queues that are not open."""
    for pattern in ("tasks-*.bin", "stage-*.pickle"):
        for path in folder.glob(pattern):
            if path.name not in (queue.tasks, queue.runner):
                path.unlink(missing_ok=True)
