"""Run tasks with a progress bar and graceful interruption."""

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
    """Give an executor and a progress reporter for the time of the block.

    Args:
        workers: number of processes; None for the number of cores.
        executor: the executor's name.

    Raises:
        ConfigError: there is no such executor.
        Interrupted: the user pressed Ctrl-C; the message has the command that resumes.
    """
    from jprep.cli.common.interrupt import graceful_interrupt
    from jprep.cli.common.progress import show_progress
    from jprep.engine.runner import SilentProgress
    from jprep.io.machine import cpu_count
    from jprep.plugins import plugins

    kind = plugins().get("executor", executor)
    with (
        graceful_interrupt() as stopping,
        show_progress() as progress,
        closing(kind(workers or cpu_count(), stopping)) as running,
    ):
        yield running, progress or SilentProgress()


def limit_blas_threads() -> None:
    """Keep numpy, not imported yet, from starting a thread per core for linear algebra that jprep does not use."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
