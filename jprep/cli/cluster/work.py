"""`jprep work`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import WORKERS
from jprep.cli.common.output import error, note
from jprep.io.machine import cpu_count

if TYPE_CHECKING:
    from jprep.engine.queue.reader import QueueReader
    from jprep.engine.queue.share import ShareResult

STOPPED = 99
"""The exit code of a share that was told to stop after some progress; Grid Engine starts such a job again."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_PAUSE = 2.0  # seconds between two looks for the next queue
_LOOK = 60.0  # seconds before a queue whose share was done is looked at again; the pause doubles each time
_IDLE = 1800.0  # seconds without a new queue after which a worker no longer follows


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--index", type=click.IntRange(0), help="Number of the share, from 0. Default: the array job's variable.")
@click.option("--of", type=click.IntRange(1), help="Number of shares. Default: the array job's variable, or 1.")
@click.option("--queue", metavar="ID", help="Work on this queue only; if it is closed, do nothing.")
@click.option("--follow", is_flag=True, help="Wait for later queues until the output is finished, at most 30 minutes.")
@WORKERS
def work(folder: Path, index: int | None, of: int | None, queue: str | None, follow: bool, workers: int | None) -> None:
    """Do a share of the tasks that wait in DIR, an output directory or a recipe's directory.

    The command that builds the output writes the tasks there with `--executor queue`, which waits until all shares are
    done. Tasks that are done are skipped, so that a share can run again, and twice at the same time. Exit codes: 0 the
    share is done, 1 a task failed, 2 DIR does not exist (with --follow, the process waits for it), 99 it was told to
    stop (SIGTERM, SIGUSR1) after it had finished a task, and has to run again (1 instead of 99 with --queue).

    \b
    Example:
      jprep corpus build recipe.toml --executor queue -o /shared/corpus
      jprep work /shared/corpus --index 0 --of 2 --follow
      jprep work /shared/corpus --index 1 --of 2 --follow
    """
    limit_blas_threads()
    from jprep.engine.executors.worker import tune_memory
    from jprep.engine.queue.array_index import array_index, array_size

    tune_memory()
    number = index if index is not None else array_index(os.environ)
    count = of or array_size(os.environ) or 1
    if number is None and count > 1:
        raise click.UsageError("give --index, the number of this share")
    if (number or 0) >= count:
        raise click.UsageError(f"--index {number} of --of {count}: shares are numbered from 0")
    if not folder.is_dir():
        _refuse_or_wait(folder, follow)
    worker = _Worker(folder.absolute(), number or 0, count, workers or cpu_count(), _stop_on_signals())
    code = worker.follow() if follow else worker.work(queue)
    if queue and code == STOPPED:
        code = 1  # the command that submitted the share submits the rest again, with all of the time limit
    if not (follow or worker.found):
        note(f"no tasks wait in {folder}")
    if code:
        raise click.exceptions.Exit(code)


def _refuse_or_wait(folder: Path, follow: bool) -> None:
    """Say that a folder does not exist. A worker that follows may be started before the command that makes it.

    Raises:
        ConfigError: the worker would not wait for it.
    """
    if not follow:
        from jprep.errors import ConfigError

        fix = "give the directory that the waiting command names; --follow waits for a directory"
        raise ConfigError("there is no such directory", where=str(folder), fix=fix)
    note(f"{folder} does not exist yet: waiting for it")


class _Worker:
    """Does one share of every queue that it finds.

    Args:
        folder: the output directory, or the folder of a recipe's outputs.
        index: number of the share.
        of: number of shares.
        workers: number of processes.
        stopping: returns whether it was told to stop.
    """

    def __init__(self, folder: Path, index: int, of: int, workers: int, stopping: Callable[[], bool]) -> None:
        self._folder, self._index, self._of, self._workers = folder, index, of, workers
        self._stopping = stopping
        self._seen: dict[str, int] = {}  # queue: number of later looks at it
        self._ended = time.monotonic()

    @property
    def found(self) -> bool:
        """Whether there was a queue."""
        return bool(self._seen)

    def work(self, only: str | None = None) -> int:
        """Work on the queues that are open now; return the exit code.

        Args:
            only: id of the queue; None for all.
        """
        from jprep.engine.queue.manifest import read_queue
        from jprep.engine.queue.reader import QueueReader
        from jprep.engine.queue.survey import find_queues

        code = 0
        for path in find_queues(self._folder) if self._folder.is_dir() else []:
            manifest = read_queue(path)
            if manifest is None or only not in (None, manifest.id):
                continue
            if manifest.id not in self._seen or self._has_more(QueueReader(path, manifest)):
                self._seen[manifest.id] = 0
                code = self._do(QueueReader(path, manifest)) or code
                self._ended = time.monotonic()
        return code

    def follow(self) -> int:
        """Work on queues until the output is finished, or no queue is opened any more; return the exit code."""
        while not self._stopping():
            self.work()
            if self._is_finished():
                return 0
            if time.monotonic() - self._ended > _IDLE:
                note(f"no new tasks for {_IDLE / 60:.0f} minutes; the command that queues them may have failed")
                return 1
            time.sleep(_PAUSE)
        return STOPPED

    def _has_more(self, reader: QueueReader) -> bool:
        """Return whether this share has tasks again: the waiting command discards damaged receipts."""
        from jprep.engine.queue.share import missing_tasks

        looks = self._seen[reader.manifest.id]
        if time.monotonic() - self._ended < _LOOK * 2**looks:
            return False
        self._seen[reader.manifest.id] += 1
        return bool(missing_tasks(reader, self._index, self._of))

    def _is_finished(self) -> bool:
        """Return whether the output is finished. A recipe's folder is not: another output may be begun."""
        from jprep.engine.output_kinds import find_outputs

        kinds = find_outputs(self._folder) if self._folder.is_dir() else []
        return any(each.finished for each in kinds if not each.kind.container)

    def _do(self, reader: QueueReader) -> int:
        from jprep.engine.queue.share import Share

        if (home := Path(reader.manifest.folder)).is_dir():  # relative paths of inputs begin there
            os.chdir(home)
        result = Share(reader, self._index, self._of, self._workers, self._stopping).run()
        _show(result)
        return _exit_code(result)


def _show(result: ShareResult) -> None:
    note(f"{result.stage}: {result.done:,} done, {len(result.failed):,} failed, {result.left:,} left")
    for failure in result.failed:
        error(f"jprep: {failure.error(0)}")


def _exit_code(result: ShareResult) -> int:
    if result.complete:
        return 0
    return STOPPED if result.interrupted and result.done else 1


def _stop_on_signals() -> Callable[[], bool]:
    """Turn signals into a request to stop; return a function that returns whether there was one."""
    asked = 0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        note(f"{signal.Signals(number).name}: finishing running tasks; no new ones start")

    for number in _SIGNALS:
        signal.signal(number, ask)
    return lambda: asked > 0
