"""`jprep work`."""

from __future__ import annotations

import os
import signal
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
    from jprep.engine.queue.share import ShareResult

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


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
    from jprep.engine.queue.share_worker import STOPPED, ShareWorker

    tune_memory()
    number = index if index is not None else array_index(os.environ)
    count = of or array_size(os.environ) or 1
    if number is None and count > 1:
        raise click.UsageError("give --index, the number of this share")
    if (number or 0) >= count:
        raise click.UsageError(f"--index {number} of --of {count}: shares are numbered from 0")
    if not folder.is_dir():
        _refuse_or_wait(folder, follow)
    stopping = _stop_on_signals()
    worker = ShareWorker(folder.absolute(), number or 0, count, workers or cpu_count(), stopping, _show)
    code = worker.follow(note) if follow else worker.work(queue)
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


def _show(result: ShareResult) -> None:
    note(f"{result.stage}: {result.done:,} done, {len(result.failed):,} failed, {result.left:,} left")
    for failure in result.failed:
        error(f"jprep: {failure.error(0)}")


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
