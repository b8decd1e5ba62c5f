"""Find a scheduler by its name."""

from __future__ import annotations

from jprep.engine.schedulers.grid_engine import GridEngine
from jprep.engine.schedulers.pbs import Pbs
from jprep.engine.schedulers.scheduler import Scheduler
from jprep.engine.schedulers.slurm import Slurm
from jprep.errors import ConfigError

_SCHEDULERS: dict[str, type[Scheduler]] = {kind.name: kind for kind in (Slurm, Pbs, GridEngine)}


def find_scheduler(name: str) -> Scheduler:
    """Return a scheduler.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in _SCHEDULERS:
        raise ConfigError(f"no scheduler is called {name!r}", fix=f"the schedulers: {', '.join(_SCHEDULERS)}")
    return _SCHEDULERS[name]()
