"""The files of a queue, and the manifest that describes them."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed
from jprep.errors import DamagedError, MachineError
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import read_if_exists

QUEUE = "queue"
"""The folder of a queue, in the folder of its stage."""

MANIFEST = "queue.json"
"""The manifest, written last. Without it there is no queue."""

FAILURES = "failures"
LOGS = "logs"
FORMAT = 1


class Chunk(msgspec.Struct, frozen=True):
    """A range of the file of tasks.

    Attributes:
        offset: its first byte.
        size: its bytes.
        tasks: number of its tasks.
        sha256: hash of its bytes.
    """

    offset: int
    size: int
    tasks: int
    sha256: str


class QueueManifest(msgspec.Struct, frozen=True):
    """The description of a queue.

    Attributes:
        format: version of this format.
        jprep: the version that wrote it: pickled stages are read by the same version only.
        id: random; distinguishes queues that one directory has one after the other.
        stage: name of the stage.
        fingerprint: the stage's.
        root: the directory that outputs' paths are relative to, relative to the queue's folder: `../../..`.
        folder: working directory of the command that wrote it; relative paths of inputs begin there.
        environment: versions of Python, jprep and its libraries, which its workers must have.
        earlier: number of tasks that were finished before.
        runner: name of the file with the pickled stage.
        runner_sha256: hash of that file.
        tasks: name of the file with the pickled tasks.
        chunks: its chunks, in order.
    """

    format: int
    jprep: str
    id: str
    stage: str
    fingerprint: str
    root: str
    folder: str
    earlier: int
    runner: str
    runner_sha256: str
    tasks: str
    chunks: list[Chunk]
    environment: dict[str, str] = {}

    @property
    def size(self) -> int:
        """The number of its tasks."""
        return sum(chunk.tasks for chunk in self.chunks)


def read_queue(folder: Path) -> QueueManifest | None:
    """Read the manifest of the queue in a folder; return None if there is no queue.

    Raises:
        DamagedError: it is damaged.
        MachineError: another version of jprep wrote it, or it cannot be read.
    """
    path = folder / MANIFEST
    if (data := read_if_exists(path)) is None:
        return None
    try:
        found = decode_checksummed(data, QueueManifest)
        for name in (found.runner, found.tasks):
            inner_path(name)
        if set(found.root.split("/")) != {".."}:
            raise ValueError(f"{found.root!r} is not a directory above it")
    except ValueError as error:
        fix = "run the command that wrote it again, with the same executor"
        raise DamagedError(f"this queue is damaged ({error})", where=str(path), fix=fix) from error
    if (found.format, found.jprep) != (FORMAT, version("jprep")):
        fix = "use one environment on all machines"
        what = f"jprep {found.jprep} wrote this queue, and this is jprep {version('jprep')}"
        raise MachineError(what, where=str(path), fix=fix)
    return found


def is_open(folder: Path, queue: str) -> bool:
    """Return whether the folder has the queue of this id. A damaged manifest counts as none."""
    try:
        found = read_queue(folder)
    except (DamagedError, MachineError):
        return False
    return found is not None and found.id == queue


def close_queue(folder: Path) -> None:
    """Delete the manifest of a queue: its workers end after their present task. Its other files stay until `clean`."""
    (folder / MANIFEST).unlink(missing_ok=True)
