"""The hosts of a run: this one, those of a hostfile, or those of a Slurm allocation."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.backend import Host
from jprep_deepspeed.options import SECTION, Options

_HOSTFILE_LINE = re.compile(r"(\S+)\s+slots=(\d+)\s*(?:#.*)?")
_NAMES = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")


class HostList(NamedTuple):
    """The hosts of a run.

    Attributes:
        names: names of the hosts; empty for this host.
        processes: number of processes on each.
    """

    names: tuple[str, ...]
    processes: int

    @property
    def world(self) -> int:
        """Number of processes on all hosts."""
        return max(1, len(self.names)) * self.processes


def find_hosts(options: Options, host: Host, device: str) -> HostList:
    """Return the hosts of a run and the number of processes on each.

    Args:
        options: the backend's options.
        host: this machine.
        device: `cpu` or `cuda`.

    Raises:
        ConfigError: the hostfile cannot be used, or there is no Slurm allocation.
    """
    local = options.processes or (len(host.devices) if device == "cuda" else 0) or 1
    if not options.hosts:
        return HostList((), local)
    if options.hosts == "slurm":
        return _slurm_allocation(options, local, device)
    return _read_hostfile(Path(options.hosts), options.processes)


def expand_hostlist(names: str) -> list[str]:
    """Expand a host list of Slurm: `gpu[01-03,7],big` is gpu01, gpu02, gpu03, gpu7 and big.

    Raises:
        ConfigError: it is malformed.
    """
    found, parts = [], _NAMES.findall(names)
    for part in parts:
        pieces = [_expand_range(piece) for piece in re.split(r"(\[[^\]]*\])", part)]
        found += ["".join(combination) for combination in itertools.product(*pieces)]
    if not found or ",".join(parts) != names or any(set("[] ") & set(name) for name in found):
        raise ConfigError(f"{names!r} is not a list of hosts", where="SLURM_JOB_NODELIST", fix="e.g. gpu[01-04]")
    return found


def _expand_range(piece: str) -> list[str]:
    """Return the four numbers of `[01-03,7]`, and any other piece of a name as it is."""
    if not piece.startswith("["):
        return [piece]
    found = []
    for part in piece[1:-1].split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
            raise ConfigError(f"{part!r} is not a range of hosts", where="SLURM_JOB_NODELIST", fix="e.g. gpu[01-04]")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return found


def _read_hostfile(path: Path, processes: int) -> HostList:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = 'hosts = "" for this machine, "slurm", or a file with a line `NAME slots=8` for each host'
        where = f"{SECTION}.hosts"
        raise ConfigError(f"the hostfile {path} cannot be read: {error}", where=where, fix=fix) from error
    slots: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, count = _parse_host(line, f"{path}:{number}")
        if name in slots:
            fix = "name each host once, with all of its slots"
            raise ConfigError(f"duplicate host {name}", where=f"{path}:{number}", fix=fix)
        slots[name] = count
    return HostList(tuple(slots), _processes_per_host(path, slots, processes))


def _parse_host(line: str, where: str) -> tuple[str, int]:
    match = _HOSTFILE_LINE.fullmatch(line.strip())
    if not match or not int(match[2]):
        raise ConfigError(f"{line!r} is not a host with its slots", where=where, fix="NAME slots=8")
    return match[1], int(match[2])


def _processes_per_host(path: Path, slots: dict[str, int], processes: int) -> int:
    """Return the number of processes on each host, which is the same for all."""
    if not slots:
        raise ConfigError("the hostfile has no host", where=str(path), fix="add a line `NAME slots=8` for each host")
    fewest, most = min(slots.values()), max(slots.values())
    if processes > fewest:
        name = next(name for name, count in slots.items() if count == fewest)
        what = f"{processes} processes are requested, but {name} has {fewest} slots"
        raise ConfigError(what, where=str(path), fix=f"processes = {fewest} or fewer")
    if fewest != most and not processes:
        what = f"hosts have from {fewest} to {most} slots; all hosts must run the same number of processes"
        fix = f"set {SECTION}.processes = {fewest}, or remove the smaller hosts"
        raise ConfigError(what, where=str(path), fix=fix)
    return processes or fewest


def _slurm_allocation(options: Options, local: int, device: str) -> HostList:
    names = os.environ.get("SLURM_JOB_NODELIST", "")
    if not names:
        request = f"--nodes=2 --ntasks-per-node={local}" + (f" --gpus-per-node={local}" if device == "cuda" else "")
        fix = f"run the command inside `salloc {request}`, or in a script for `sbatch {request}`"
        raise ConfigError("no Slurm allocation", where=f"{SECTION}.hosts", fix=fix)
    count = os.environ.get("SLURM_GPUS_ON_NODE" if device == "cuda" else "SLURM_NTASKS_PER_NODE", "")
    allocated = int(count) if count.isdecimal() else 0
    return HostList(tuple(expand_hostlist(names)), options.processes or allocated or local)
