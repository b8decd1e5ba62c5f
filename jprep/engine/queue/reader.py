"""Read the queue of a stage, in the processes that do its tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jprep.engine.queue.manifest import Chunk, QueueManifest
from jprep.engine.queue.unpickler import unpickle
from jprep.engine.queue.writer import LENGTH
from jprep.engine.runner import RECEIPTS, TaskRunner
from jprep.engine.stage import Task
from jprep.errors import DamagedError
from jprep.io.os_errors import translate_read_errors

_FIX = "run the command that wrote the queue again, with the same executor"


class QueueReader:
    """A queue whose files are verified as they are read.

    Args:
        folder: the folder of the queue.
        manifest: its manifest.

    Attributes:
        folder: as given.
        manifest: as given.
    """

    def __init__(self, folder: Path, manifest: QueueManifest) -> None:
        self.folder, self.manifest = folder, manifest

    def runner(self) -> TaskRunner:
        """Return what runs a task. Its directory is the one in which this process found the queue.

        Raises:
            DamagedError: the file is damaged.
            MachineError: it cannot be read.
        """
        path = self.folder / self.manifest.runner
        with translate_read_errors(str(path)):
            data = path.read_bytes()
        found = unpickle(_verified(data, self.manifest.runner_sha256, path), str(path))
        if not isinstance(found, TaskRunner):
            raise DamagedError("this file has no stage", where=str(path), fix=_FIX)
        root = Path(os.path.normpath(self.folder.absolute() / self.manifest.root))
        return msgspec.structs.replace(found, root=root, receipts=self.folder.parent / RECEIPTS)

    def tasks(self, index: int = 0, of: int = 1) -> Iterator[Task]:
        """Yield the tasks of every chunk whose number, divided by `of`, leaves `index`.

        Raises:
            DamagedError: a chunk is damaged.
            MachineError: the file cannot be read.
        """
        path = self.folder / self.manifest.tasks
        for chunk in self.manifest.chunks[index::of]:
            yield from _tasks(self._read(path, chunk), path)

    def _read(self, path: Path, chunk: Chunk) -> bytes:
        with translate_read_errors(str(path)), path.open("rb") as file:
            file.seek(chunk.offset)
            return _verified(file.read(chunk.size), chunk.sha256, path)


def _verified(data: bytes, sha256: str, path: Path) -> bytes:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedError("this file was changed or damaged", where=str(path), fix=_FIX)
    return data


def _tasks(data: bytes, path: Path) -> Iterator[Task]:
    offset = 0
    while offset < len(data):
        begin = offset + LENGTH.size
        offset = begin + LENGTH.unpack(data[offset:begin])[0]
        task = unpickle(data[begin:offset], str(path))
        if not isinstance(task, Task):
            raise DamagedError("this file has something other than tasks", where=str(path), fix=_FIX)
        yield task
