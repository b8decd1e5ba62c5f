"""Run tasks with a progress bar and graceful interruption."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.engine.executors.choice import ExecutorRef
    from jprep.engine.runner import Executor, ProgressReporter


@contextlib.contextmanager
def open_executor(
    workers: int | None, executor: str | None = None, ref: ExecutorRef | None = None
) -> Iterator[tuple[Executor, ProgressReporter]]:
    """Give an executor and a progress reporter for the duration of the block.

    Args:
        workers: number of processes; None for the number of cores.
        executor: the executor's name; None for that of `ref`, or else `local`.
        ref: the recipe's `executor`.

    Raises:
        ConfigError: there is no such executor, or an option is wrong.
        Interrupted: the user pressed Ctrl-C; the message has the command that resumes.
    """
    from jprep.cli.common.interrupt import graceful_interrupt
    from jprep.cli.common.output import note
    from jprep.cli.common.progress import show_progress
    from jprep.cli.common.shell_command import current_words
    from jprep.engine.executors.choice import make_executor
    from jprep.engine.executors.protocols import CommandExecutor
    from jprep.engine.runner import SilentProgress

    with (
        graceful_interrupt() as stopping,
        show_progress() as progress,
        closing(make_executor(ref, executor, workers, stopping)) as running,
    ):
        if isinstance(running, CommandExecutor):
            running.attach(current_words(), note)
        yield running, progress or SilentProgress()


def describe_executor(ref: ExecutorRef | None, executor: str | None, workers: int | None) -> str:
    """Return where tasks would run, for `--dry-run`: with how many processes of this machine, or by which executor.

    Args:
        ref: the recipe's `executor`.
        executor: the executor's name; None for that of `ref`, or else `local`.
        workers: number of processes; None for the number of cores.

    Raises:
        ConfigError: there is no such executor, or an option is wrong.
    """
    from jprep.engine.executors.choice import LOCAL, choose_executor
    from jprep.io.machine import cpu_count

    name, _ = choose_executor(ref, executor)
    count = workers or cpu_count()
    return f"with {counted(count, 'worker')}" if name == LOCAL else f"with the executor {name}"


def executor_options(overrides: tuple[str, ...]) -> ExecutorRef | None:
    """Return the executor of a command without a recipe.

    Args:
        overrides: `executor.KEY=VALUE` strings.

    Raises:
        ConfigError: a string sets something else.
    """
    from jprep.config import apply_overrides
    from jprep.errors import ConfigError

    found = apply_overrides({}, overrides)
    if others := found.keys() - {"executor"}:
        fix = "without a recipe, only executor.KEY=VALUE can be set"
        raise ConfigError(f"{min(others)!r} cannot be set here", where="--set", fix=fix)
    options: ExecutorRef | None = found.get("executor")
    return options


def limit_blas_threads() -> None:
    """Keep numpy, not imported yet, from starting a thread per core for linear algebra that jprep does not use."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
