"""What commands that work for long have in common: processes, a bar, and a Ctrl-C that loses nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jprep.engine.run import Executor, Progress


@contextlib.contextmanager
def working(workers: int | None, executor: str = "local") -> Iterator[tuple[Executor, Progress]]:
    """Where tasks run, and what is told of them, for the time of the block.

    Args:
        workers: how many processes; None takes the cores.
        executor: the executor's name.

    Raises:
        ConfigError: no such executor.
        Interrupted: with the command that goes on, once the block has let go after a Ctrl-C.
    """
    from jprep.cli.interrupt import graceful
    from jprep.cli.progress import watched
    from jprep.corpus.corpus import Silent
    from jprep.io.machine import cores
    from jprep.plugins import plugins

    where = plugins().get("executor", executor)
    with graceful() as stopping, watched() as progress, closing(where(workers or cores(), stopping)) as running:
        yield running, progress or Silent()


def spare_threads() -> None:
    """Before numpy is loaded: it would start a thread a core for linear algebra that nothing here does."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
