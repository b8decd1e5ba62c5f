"""Find the hosts of a run from `train.hosts`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jprep.errors import ConfigError
from jprep.train.backend import Backend
from jprep.train.hosts.host_set import SECTION, HostSet
from jprep.train.hosts.hostfile import grid_engine_hosts, pbs_hosts, read_hostfile
from jprep.train.hosts.outer_launcher import outer_hosts, require_outer_hosts
from jprep.train.hosts.slurm import slurm_hosts
from jprep.train.job.config import TrainConfig

THIS_MACHINE = "none"


def find_hosts(hosts: str, environ: Mapping[str, str] = os.environ) -> HostSet | None:
    """Return the hosts of a run; None for this machine.

    Args:
        hosts: `train.hosts`.
        environ: environment variables.

    Raises:
        ConfigError: the file or the variables cannot be used, or there is no such job.
    """
    if hosts == THIS_MACHINE:
        return None
    if not hosts:
        return outer_hosts(environ)
    if hosts == "slurm":
        in_step = outer_hosts(environ)  # `srun jprep train`: every task runs this command
        return in_step or slurm_hosts(environ)
    named = {"pbs": pbs_hosts, "grid-engine": grid_engine_hosts, "env": require_outer_hosts}
    return named[hosts](environ) if hosts in named else read_hostfile(Path(hosts))


def hosts_of(train: TrainConfig, backend: Backend, options: Any) -> HostSet | None:
    """Return the hosts of a run from its section, or from the option that the backend had before.

    Raises:
        ConfigError: both are given and differ, the backend supports one machine only, or see `find_hosts`.
    """
    older = backend.hosts(options)
    if train.hosts and older and train.hosts != older:
        where = f"train.backend.{backend.name}.hosts"
        raise ConfigError(
            f"hosts is given twice: {older!r}, and train.hosts = {train.hosts!r}", where=where, fix="remove it"
        )
    found = find_hosts(train.hosts or older)
    if found and not backend.several_hosts:
        fix = 'use the backend torch, deepspeed or flax; hosts = "none" ignores the variables of a launcher'
        raise ConfigError(f"the backend {backend.name} does not run on {found.source}", where=SECTION, fix=fix)
    return found
