"""The hosts of a Slurm allocation."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Collection, Mapping

from jprep.errors import ConfigError
from jprep.train.hosts.host_set import SECTION, HostSet

_NAMES = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_UNAVAILABLE = ("down", "fail", "boot", "pow", "unk", "inval")
_NUMBER = re.compile(r"(?:[\w.-]+:)*(\d+)")  # `8`, `a100:8`, `gpu:a100:8`


def slurm_hosts(environ: Mapping[str, str]) -> HostSet:
    """Return the hosts of the Slurm allocation that this process is in.

    Raises:
        ConfigError: there is no allocation.
    """
    names = environ.get("SLURM_JOB_NODELIST", "")
    if not names:
        request = "--nodes=2 --gpus-per-node=8"
        fix = (
            f"run the command inside `salloc {request}` or a script for sbatch, or use `jprep train … --executor slurm`"
        )
        raise ConfigError("no Slurm allocation", where=SECTION, fix=fix)
    gpus = _number(environ.get("SLURM_GPUS_ON_NODE", "")) or _number(environ.get("SLURM_GPUS_PER_NODE", ""))
    slots = _number(environ.get("SLURM_NTASKS_PER_NODE", ""))
    source = f"the Slurm job {environ.get('SLURM_JOB_ID', '')}".rstrip()
    return HostSet(source, "srun", tuple(expand_hostlist(names)), slots, gpus)


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


def unavailable_nodes(names: Collection[str]) -> set[str]:
    """Return those of some nodes that Slurm cannot use now, or does not hear of."""
    command = ["sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", "--format=%N %t"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name for name, state in pairs if state.endswith("*") or state.startswith(_UNAVAILABLE)}


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


def _number(text: str) -> int:
    match = _NUMBER.fullmatch(text)
    return int(match[1]) if match else 0
