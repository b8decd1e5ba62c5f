"""What commands that work for long have in common: processes, a bar, and a Ctrl-C that loses nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jprep.engine.runner import Executor, ProgressReporter


@contextlib.contextmanager
def open_executor(workers: int | None, executor: str = "local") -> Iterator[tuple[Executor, ProgressReporter]]:
    """Where tasks run, and what is told of them, for the time of the block.

    Args:
        workers: how many processes; None takes the cores.
        executor: the executor's name.

    Raises:
        ConfigError: no such executor.
        Interrupted: with the command that goes on, once the block has let go after a Ctrl-C.
    """
    from jprep.cli.common.interrupt import graceful_interrupt
    from jprep.cli.common.progress import show_progress
    from jprep.corpus.api import SilentProgress
    from jprep.io.machine import cpu_count
    from jprep.plugins import plugins

    where = plugins().get("executor", executor)
    with (
        graceful_interrupt() as stopping,
        show_progress() as progress,
        closing(where(workers or cpu_count(), stopping)) as running,
    ):
        yield running, progress or SilentProgress()


def limit_blas_threads() -> None:
    """Before numpy is loaded: it would start a thread a core for linear algebra that nothing here does."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
