"""Processes that an outer launcher started with the same command: torchrun, MPI, srun or Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.hosts.host_set import SECTION, HostSet


class _Variables(NamedTuple):
    """The variables of a launcher. Each of `rank` and `world` may have several names."""

    name: str
    rank: tuple[str, ...]
    world: tuple[str, ...]
    local_world: tuple[str, ...]
    local_rank: str


_LAUNCHERS = (
    _Variables("torchrun or Kubernetes", ("RANK", "JOB_COMPLETION_INDEX"), ("WORLD_SIZE",), ("LOCAL_WORLD_SIZE",),
               "LOCAL_RANK"),
    _Variables("Open MPI", ("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_SIZE",),
               "OMPI_COMM_WORLD_LOCAL_RANK"),
    _Variables("MPI", ("PMI_RANK",), ("PMI_SIZE",), ("MPI_LOCALNRANKS",), "MPI_LOCALRANKID"),
    _Variables("srun", ("SLURM_PROCID",), ("SLURM_STEP_NUM_TASKS",), ("SLURM_STEP_TASKS_PER_NODE",), "SLURM_LOCALID"),
)  # fmt: skip

FOREIGN_PREFIXES = ("TORCHELASTIC_", "PET_", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL", "GROUP_", "ROLE_")
"""Variables of outer launchers that must not reach the processes of a run."""


def outer_hosts(environ: Mapping[str, str]) -> HostSet | None:
    """Return the processes that an outer launcher started; None without one, or if it started a single process."""
    for launcher in _LAUNCHERS:
        rank, world = _first(environ, launcher.rank), _first(environ, launcher.world)
        if rank is None or world is None or world < 2:
            continue
        if not 0 <= rank < world:
            fix = "correct the variables, or set train.hosts to another value"
            raise ConfigError(f"process {rank} of {world} cannot be", where=launcher.rank[0], fix=fix)
        sharing = _first(environ, launcher.local_world) or 1
        names = tuple(f"process {number} of {world}" for number in range(world))
        source, address = f"the variables of {launcher.name}", environ.get("MASTER_ADDR", "")
        slots = 1 if sharing > 1 else 0
        strict = sharing > 1  # each of these processes is one rank
        return HostSet(source, "join", names, slots, slots, strict, number=rank, address=address, sharing=sharing)
    return None


def require_outer_hosts(environ: Mapping[str, str]) -> HostSet:
    """Return the processes that an outer launcher started.

    Raises:
        ConfigError: the variables of no launcher are set.
    """
    found = outer_hosts(environ)
    if found is None:
        names = "RANK and WORLD_SIZE, OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE"
        fix = f"start the command by torchrun, mpirun or srun, or set {names}"
        raise ConfigError("no launcher has set its variables for several processes", where=SECTION, fix=fix)
    return found


def outer_local_rank(environ: Mapping[str, str]) -> int:
    """Return the number of this process among those that the outer launcher started on this machine."""
    for launcher in _LAUNCHERS:
        if (found := _first(environ, (launcher.local_rank,))) is not None:
            return found
    return 0


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of these variables that is a number; `2(x3)` of Slurm is 2."""
    for name in names:
        if (value := environ.get(name, "").partition("(")[0].partition(",")[0]).isdecimal():
            return int(value)
    return None
