"""Survey the stages of unfinished outputs: what is done, what failed, what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from jprep.engine.output_kinds import DEFAULT_LOCK, STATE, OutputKind, find_outputs
from jprep.engine.queue.failures import Failure, read_failures
from jprep.engine.queue.jobs import Jobs, read_jobs
from jprep.engine.queue.manifest import MANIFEST, QUEUE, QueueManifest, read_queue
from jprep.engine.runner import RECEIPTS, STAGE_JSON, finished_tasks
from jprep.errors import DamagedError
from jprep.io.lock import is_locked


class StageStatus(msgspec.Struct):
    """A stage.

    Attributes:
        stage: its name.
        done: number of finished tasks.
        total: number of tasks; None if it has no queue.
        failed: the failures of tasks that are not done.
        open: whether its queue is open.
        jobs: the jobs that were submitted; None if there were none.
    """

    stage: str
    done: int
    total: int | None
    failed: list[Failure]
    open: bool
    jobs: Jobs | None

    @property
    def left(self) -> int | None:
        """The number of tasks that are neither done nor failed."""
        return None if self.total is None else max(0, self.total - self.done - len(self.failed))


class OutputStatus(msgspec.Struct):
    """An output directory.

    Attributes:
        path: the directory.
        kind: the kind of output, with its state; "" for a directory that has none.
        finished: whether its manifest exists.
        running: whether a command that makes it holds its lock.
        stages: the stages of unfinished work, in the order in which they were begun.
    """

    path: str
    kind: str
    finished: bool
    running: bool
    stages: list[StageStatus]


def find_queues(folder: Path) -> list[Path]:
    """Return the folders of all open queues of an output directory, or of a recipe's outputs."""
    patterns = (f"{STATE}/*/{QUEUE}/{MANIFEST}", f"*/{STATE}/*/{QUEUE}/{MANIFEST}")
    return sorted(path.parent for pattern in patterns for path in folder.glob(pattern))


def survey(folder: Path, without: Collection[Path] = ()) -> list[OutputStatus]:
    """Return the status of an output directory, or of each output in the folder of a recipe or of several.

    Nothing is changed.

    Args:
        folder: the output directory, the recipe's folder, or the folder of recipes' folders.
        without: folders in it that are left out.

    Raises:
        MachineError: a file cannot be read, or another version of jprep wrote a queue.
    """
    found = _status(folder)
    return ([] if found.stages or found.finished else list(_inner(folder, without, depth=2))) or [found]


def _inner(folder: Path, without: Collection[Path], depth: int) -> Iterator[OutputStatus]:
    """Yield the outputs in a folder, and those in its folders that are no outputs themselves, down to some levels."""
    for path in _folders(folder, without):
        with contextlib.suppress(PermissionError):  # a folder of something else
            found = _status(path)
            if found.kind or found.running or found.stages:
                yield found
            elif depth > 1:
                yield from _inner(path, without, depth - 1)


def _folders(folder: Path, without: Collection[Path]) -> list[Path]:
    found = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in found if path not in without)


def _status(folder: Path) -> OutputStatus:
    kinds = [each for each in find_outputs(folder) if not each.kind.container]
    finished = any(each.finished for each in kinds)
    stages = [] if finished else sorted((folder / STATE).glob(f"*/{STAGE_JSON}"), key=_age)
    kind = str(kinds[0]) if kinds else ""
    running = not finished and _is_running(folder, [each.kind for each in kinds])
    return OutputStatus(str(folder), kind, finished, running, [_stage(path.parent) for path in stages])


def _is_running(folder: Path, kinds: list[OutputKind]) -> bool:
    """Return whether a lock of an unfinished output is held; one that has just begun shows no kind yet."""
    locks = {each.lock for each in kinds if each.lock} or {DEFAULT_LOCK}
    return any(is_locked(folder / name) for name in locks)


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, str(path)


def _stage(folder: Path) -> StageStatus:
    queue, receipts = _queue(folder / QUEUE), finished_tasks(folder / RECEIPTS)
    failures = [each for name, each in read_failures(folder / QUEUE).items() if name not in receipts]
    total = queue.earlier + queue.size if queue else None
    return StageStatus(folder.name, len(receipts), total, failures, queue is not None, read_jobs(folder / QUEUE))


def _queue(folder: Path) -> QueueManifest | None:
    try:
        return read_queue(folder)
    except DamagedError:
        return None
