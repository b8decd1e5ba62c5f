"""Choose and construct the executor that a recipe or an option names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jprep.config import ConfigSection, parse_config
from jprep.errors import ConfigError
from jprep.io.machine import cpu_count
from jprep.plugins import plugins

if TYPE_CHECKING:
    from jprep.engine.runner import Executor

ExecutorRef = str | dict[str, Any]
"""An executor in a recipe: its name, or a table `{ use = NAME, option = value, … }`."""

LOCAL = "local"


class NoOptions(ConfigSection, frozen=True):
    """The options of an executor that has none."""


def choose_executor(ref: ExecutorRef | None, chosen: str | None = None) -> tuple[str, ConfigSection]:
    """Return the name and the parsed options of an executor.

    Args:
        ref: the recipe's `executor`. A table without `use` has options for the chosen executor.
        chosen: the name that an option of the command gives. Options of the recipe for another executor are ignored.

    Raises:
        ConfigError: there is no such executor, or an option is unknown or has a wrong value.
        MachineError: a library that it needs is not installed.
    """
    options = {} if ref is None else {"use": ref} if isinstance(ref, str) else dict(ref)
    use = options.pop("use", None)
    if use is not None and not isinstance(use, str):
        raise ConfigError(f"`use` names an executor, got {use!r}", where="[executor]", fix='e.g. use = "slurm"')
    name = chosen or use or LOCAL
    if use not in (None, name):
        options = {}
    kind = plugins().get("executor", name)
    return name, parse_config(options, getattr(kind, "Config", NoOptions), where=f"[executor] for {name!r}")


def make_executor(
    ref: ExecutorRef | None, chosen: str | None, workers: int | None, stopping: Callable[[], bool]
) -> Executor:
    """Construct an executor.

    Args:
        ref: the recipe's `executor`, or None.
        chosen: the name that an option of the command gives, or None.
        workers: number of processes; None for the number of cores.
        stopping: returns whether the user asked to stop.

    Raises:
        ConfigError, MachineError: see `choose_executor`.
    """
    name, options = choose_executor(ref, chosen)
    kind, count = plugins().get("executor", name), workers or cpu_count()
    executor: Executor = kind(count, stopping, options) if hasattr(kind, "Config") else kind(count, stopping)
    return executor
