"""How the processes of a run are started: on one host, on those of a hostfile, on those of a Slurm allocation."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.backend import Host
from jprep_deepspeed.options import SECTION, Options
from jprep_torch.backend import torchrun_command, worker_environment

DEFAULT_PORT = 29500
"""Where processes meet if nothing is said, as PyTorch and DeepSpeed have it."""

_SLOTS = re.compile(r"(\S+)\s+slots=(\d+)\s*(?:#.*)?")
_PARTS = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_PORTS, _FIRST_PORT = 12_000, 20_000  # below those that systems hand out themselves
_MODULE = "jprep_deepspeed.worker"


class HostList(NamedTuple):
    """Where a run is.

    Attributes:
        names: of the hosts; none for this one.
        processes: of each.
    """

    names: tuple[str, ...]
    processes: int

    @property
    def world(self) -> int:
        """All processes."""
        return max(1, len(self.names)) * self.processes


class LaunchCommand(NamedTuple):
    """How they are started.

    Attributes:
        argv: the command.
        env: its variables.
        notes: what a user should know of it.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    notes: tuple[str, ...]


def find_hosts(options: Options, host: Host, device: str) -> HostList:
    """The hosts of a run, and how many processes each has.

    Raises:
        ConfigError: the hostfile cannot be used, or there is no Slurm allocation.
    """
    here = options.processes or (len(host.devices) if device == "cuda" else 0) or 1
    if not options.hosts:
        return HostList((), here)
    if options.hosts == "slurm":
        return _allocation(options, here, device)
    return _hostfile(Path(options.hosts), options.processes)


def launch(options: Options, hosts: HostList, host: Host, device: str, verb: list[str]) -> LaunchCommand:
    """The command that starts a run's workers.

    Args:
        options: the backend's.
        hosts: from `find_hosts`.
        host: this machine.
        device: `cpu` or `cuda`.
        verb: the worker's arguments.
    """
    env = worker_environment(host, device, hosts.processes, options.threads, deterministic=options.deterministic)
    env["DS_ACCELERATOR"] = device  # else it takes a GPU where there is one
    if options.hosts:
        env = {name: value for name, value in env.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    if options.hosts == "slurm":
        return _by_slurm(options, hosts, host, env, verb)
    if options.hosts:
        return _by_runner(options, hosts, host, env, verb)
    if options.launcher == "torchrun" or hosts.processes == 1:
        return LaunchCommand((host.python, *torchrun_command(hosts.processes, options.port), _MODULE, *verb), env, ())
    command = ["deepspeed.launcher.runner", "--hostfile", "", *_port(options), "--no_local_rank"]
    notes: tuple[str, ...] = ()
    if device == "cpu" or hosts.processes < len(host.devices):
        command += ["--num_accelerators", str(hosts.processes)]
        if device == "cuda":
            notes = ("DeepSpeed's launcher takes the first GPUs, whatever CUDA_VISIBLE_DEVICES says",)
    return LaunchCommand((host.python, "-m", *command, "--module", _MODULE, *verb), env, notes)


def expand(names: str) -> list[str]:
    """A list of hosts as Slurm writes it: `gpu[01-03,7],big` is gpu01, gpu02, gpu03, gpu7 and big.

    Raises:
        ConfigError: it is none.
    """
    found, parts = [], _PARTS.findall(names)
    for part in parts:
        pieces = [_numbers(piece) for piece in re.split(r"(\[[^\]]*\])", part)]
        found += ["".join(chosen) for chosen in itertools.product(*pieces)]
    if not found or ",".join(parts) != names or any(set("[] ") & set(name) for name in found):
        raise ConfigError(f"{names!r} is no list of hosts", where="SLURM_JOB_NODELIST", fix="e.g. gpu[01-04]")
    return found


def _numbers(piece: str) -> list[str]:
    """What a piece of a name stands for: `[01-03,7]` for four numbers, any other for itself."""
    if not piece.startswith("["):
        return [piece]
    found = []
    for part in piece[1:-1].split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
            raise ConfigError(f"{part!r} is no range of hosts", where="SLURM_JOB_NODELIST", fix="e.g. gpu[01-04]")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return found


def _hostfile(path: Path, processes: int) -> HostList:
    where = f"{SECTION}.hosts"
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = 'hosts = "" for this machine, "slurm", or a file with a line `NAME slots=8` for each host'
        raise ConfigError(f"the hostfile {path} cannot be read: {error}", where=where, fix=fix) from error
    slots: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _SLOTS.fullmatch(line.strip())
        if not match or not int(match[2]):
            raise ConfigError(f"{line!r} names no host", where=f"{path}:{number}", fix="NAME slots=8")
        if match[1] in slots:
            fix = "name each host once, with all of its slots"
            raise ConfigError(f"the host {match[1]} is named twice", where=f"{path}:{number}", fix=fix)
        slots[match[1]] = int(match[2])
    return HostList(tuple(slots), _alike(path, slots, processes))


def _alike(path: Path, slots: dict[str, int], processes: int) -> int:
    """How many processes each host has."""
    if not slots:
        raise ConfigError("the hostfile names no host", where=str(path), fix="a line `NAME slots=8` for each host")
    least, most = min(slots.values()), max(slots.values())
    if processes > least:
        name = next(name for name, number in slots.items() if number == least)
        what, fix = (
            f"{processes} processes are asked for, and {name} has {least} slots",
            f"processes = {least} or fewer",
        )
        raise ConfigError(what, where=str(path), fix=fix)
    if least != most and not processes:
        fix = f"{SECTION}.processes = {least}, or leave the smaller hosts out"
        raise ConfigError(f"hosts have from {least} to {most} slots; all need as many", where=str(path), fix=fix)
    return processes or least


def _allocation(options: Options, here: int, device: str) -> HostList:
    names = os.environ.get("SLURM_JOB_NODELIST", "")
    if not names:
        asked = f"--nodes=2 --ntasks-per-node={here}" + (f" --gpus-per-node={here}" if device == "cuda" else "")
        fix = f"`salloc {asked}` and the same command there, or a script for `sbatch {asked}`"
        raise ConfigError("this is no Slurm allocation", where=f"{SECTION}.hosts", fix=fix)
    told = os.environ.get("SLURM_GPUS_ON_NODE" if device == "cuda" else "SLURM_NTASKS_PER_NODE", "")
    return HostList(tuple(expand(names)), options.processes or (int(told) if told.isdecimal() else 0) or here)


def _by_slurm(options: Options, hosts: HostList, host: Host, env: dict[str, str], verb: list[str]) -> LaunchCommand:
    """One task for each process; a rank that dies takes the others with it."""
    job = re.sub(r"\D", "", os.environ.get("SLURM_JOB_ID", ""))
    port = options.port or _FIRST_PORT + int(job or 0) % _PORTS
    argv = ["srun", f"--nodes={len(hosts.names)}", f"--ntasks={hosts.world}", f"--ntasks-per-node={hosts.processes}"]
    argv += ["--kill-on-bad-exit=1"]
    if cores := os.environ.get("SLURM_CPUS_PER_TASK"):  # srun does not take it from the allocation
        argv += [f"--cpus-per-task={cores}"]
    env |= {"MASTER_ADDR": hosts.names[0], "MASTER_PORT": str(port)}
    argv += [host.python, "-m", _MODULE, *verb]
    shown = shlex.join([*argv[: -len(verb)], *verb[:2], "…"])
    return LaunchCommand(
        tuple(argv), env, (f"{_many(hosts)}: MASTER_ADDR={hosts.names[0]} MASTER_PORT={port} {shown}",)
    )


def _by_runner(options: Options, hosts: HostList, host: Host, env: dict[str, str], verb: list[str]) -> LaunchCommand:
    """DeepSpeed's runner, through pdsh and ssh."""
    told = ["--hostfile", str(Path(options.hosts).absolute()), "--num_accelerators", str(hosts.processes)]
    argv = (
        host.python,
        "-m",
        "jprep_deepspeed.worker.launcher",
        *told,
        *_port(options),
        *sorted(env),
        "--",
        _MODULE,
        *verb,
    )
    note = f"{_many(hosts)}, started by DeepSpeed's runner through pdsh; each needs ssh without a password, the run's "
    return LaunchCommand(
        argv, env, (f"{note}folder and the environment {Path(host.python).parents[1]} at the same paths",)
    )


def _many(hosts: HostList) -> str:
    names = ", ".join(hosts.names[:4]) + (" …" if len(hosts.names) > 4 else "")
    return f"{len(hosts.names)} hosts ({names}) × {hosts.processes} processes"


def _port(options: Options) -> list[str]:
    return ["--master_port", str(options.port or DEFAULT_PORT)]
