"""Files that name hosts: hostfiles of DeepSpeed and MPI, and the node files of PBS and Grid Engine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Starter
from jprep.train.hosts.host_set import SECTION, HostSet

_LINE = re.compile(r"([^\s:=]+)(?:\s+slots=(\d+)|:(\d+))?(?:\s+\w+=\S+)*")
_Slots = dict[str, int]


def read_hostfile(path: Path) -> HostSet:
    """Return the hosts of a hostfile: a line `NAME`, `NAME slots=8` or `NAME:8` for each.

    Raises:
        ConfigError: it cannot be read, a line is malformed, or a host is named twice.
    """
    slots: _Slots = {}
    for where, line in _lines(path, SECTION):
        match = _LINE.fullmatch(line)
        count = int((match[2] or match[3] or 1) if match else 0)
        if not match or not count:
            raise ConfigError(f"{line!r} is not a host with its slots", where=where, fix="NAME slots=8")
        if match[1] in slots:
            fix = "name each host once, with all of its slots"
            raise ConfigError(f"duplicate host {match[1]}", where=where, fix=fix)
        slots[match[1]] = count if match[2] or match[3] else 0
    found = _hosts(f"the hostfile {path}", "ssh", slots, str(path))
    return found._replace(gpus=found.slots, strict=True)


def pbs_hosts(environ: Mapping[str, str]) -> HostSet:
    """Return the hosts of a PBS job: `$PBS_NODEFILE` names a host once for each of its processes.

    Raises:
        ConfigError: this is not a PBS job, or the file cannot be used.
    """
    path = _job_file(environ, "PBS_NODEFILE", "PBS", "qsub -l select=2:ncpus=8:mpiprocs=8 JOB")
    slots: _Slots = {}
    for _, line in _lines(path, "PBS_NODEFILE"):
        slots[line] = slots.get(line, 0) + 1
    starter: Starter = "pbs_tmrsh" if shutil.which("pbs_tmrsh") else "ssh"
    return _hosts(f"the PBS job {environ.get('PBS_JOBID', '')}".rstrip(), starter, slots, str(path))


def grid_engine_hosts(environ: Mapping[str, str]) -> HostSet:
    """Return the hosts of a Grid Engine job: `$PE_HOSTFILE` has lines `HOST SLOTS QUEUE PROCESSORS`.

    Raises:
        ConfigError: this is not a job with a parallel environment, or the file cannot be used.
    """
    path = _job_file(environ, "PE_HOSTFILE", "Grid Engine", "qsub -pe ENVIRONMENT SLOTS JOB")
    slots: _Slots = {}
    for where, line in _lines(path, "PE_HOSTFILE"):
        name, count = (*line.split(), "", "")[:2]
        if not count.isdecimal() or not int(count):
            raise ConfigError(f"{line!r} is not a host with its slots", where=where, fix="HOST SLOTS QUEUE PROCESSORS")
        slots[name] = slots.get(name, 0) + int(count)
    starter: Starter = "qrsh" if shutil.which("qrsh") else "ssh"
    return _hosts(f"the Grid Engine job {environ.get('JOB_ID', '')}".rstrip(), starter, slots, str(path))


def _hosts(source: str, starter: Starter, slots: _Slots, where: str) -> HostSet:
    if not slots:
        raise ConfigError("the file names no host", where=where, fix="add a line `NAME slots=8` for each host")
    counts = [count for count in slots.values() if count]
    fewest, most = min(counts, default=0), max(counts, default=0)
    unused = f" ({fewest} of up to {most} slots of each host, since all run the same number of processes)"
    return HostSet(source + unused * (fewest != most), starter, tuple(slots), fewest)


def _job_file(environ: Mapping[str, str], variable: str, scheduler: str, command: str) -> Path:
    if path := environ.get(variable, ""):
        return Path(path)
    fix = f"run it inside a job: `{command}`"
    raise ConfigError(f"this is no {scheduler} job: {variable} is not set", where=SECTION, fix=fix)


def _lines(path: Path, where: str) -> list[tuple[str, str]]:
    """Return the lines of a file with their places, without comments and empty lines."""
    strip: Callable[[str], str] = lambda line: line.partition("#")[0].strip()  # noqa: E731
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = 'hosts = "" for this machine, "slurm", "pbs", "grid-engine", "env", or a file with a line for each host'
        raise ConfigError(f"the hostfile {path} cannot be read: {error}", where=where, fix=fix) from error
    return [(f"{path}:{number}", strip(line)) for number, line in enumerate(lines, 1) if strip(line)]
