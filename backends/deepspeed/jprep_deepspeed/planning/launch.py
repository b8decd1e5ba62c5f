"""The command that starts workers: on one host, on those of a hostfile, or in a Slurm allocation."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.train.backend import Host
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning.hosts import HostList
from jprep_deepspeed.planning.layout import Layout
from jprep_torch.planning.launch import torchrun_command, worker_environment

DEFAULT_PORT = 29500
"""The default rendezvous port of PyTorch and DeepSpeed."""

_PORT_COUNT, _FIRST_PORT = 12_000, 20_000  # below the ports that systems assign themselves
_MODULE = "jprep_deepspeed.worker"


class LaunchCommand(NamedTuple):
    """How workers are started.

    Attributes:
        argv: the command.
        env: its environment variables.
        notes: sentences for the user.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    notes: tuple[str, ...]


def worker_arguments(run: Path, config: dict[str, Any], layout: Layout) -> list[str]:
    """Return the worker's arguments.

    Args:
        run: the run directory.
        config: DeepSpeed's configuration.
        layout: the layout.
    """
    arguments = ["train", str(run), "--settings", msgspec.json.encode(config).decode(), "--device", layout.device]
    return arguments + (["--gradient-checkpointing"] if layout.gradient_checkpointing else [])


def launch_command(options: Options, hosts: HostList, host: Host, device: str, arguments: list[str]) -> LaunchCommand:
    """Return the command that starts the workers of a run.

    Args:
        options: the backend's options.
        hosts: the hosts of the run.
        host: this machine.
        device: `cpu` or `cuda`.
        arguments: the worker's arguments.
    """
    env = worker_environment(host, device, hosts.processes, options.threads, deterministic=options.deterministic)
    env["DS_ACCELERATOR"] = device  # by default DeepSpeed uses a GPU if there is one
    if options.hosts:
        env = {name: value for name, value in env.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    if options.hosts == "slurm":
        return _srun(options, hosts, host, env, arguments)
    if options.hosts:
        return _hostfile_runner(options, hosts, host, env, arguments)
    if options.launcher == "torchrun" or hosts.processes == 1:
        command = torchrun_command(hosts.processes, options.port)
        return LaunchCommand((host.python, *command, _MODULE, *arguments), env, ())
    return _local_runner(options, hosts, host, device, env, arguments)


def _local_runner(
    options: Options, hosts: HostList, host: Host, device: str, env: dict[str, str], arguments: list[str]
) -> LaunchCommand:
    """Start the processes of this host by DeepSpeed's runner."""
    command = ["deepspeed.launcher.runner", "--hostfile", "", *_port(options), "--no_local_rank"]
    notes: tuple[str, ...] = ()
    if device == "cpu" or hosts.processes < len(host.devices):
        command += ["--num_accelerators", str(hosts.processes)]
        if device == "cuda":
            notes = ("DeepSpeed's launcher uses the first GPUs and ignores CUDA_VISIBLE_DEVICES",)
    return LaunchCommand((host.python, "-m", *command, "--module", _MODULE, *arguments), env, notes)


def _srun(options: Options, hosts: HostList, host: Host, env: dict[str, str], arguments: list[str]) -> LaunchCommand:
    """Start one Slurm task for each process; if a rank dies, Slurm ends the others."""
    job = re.sub(r"\D", "", os.environ.get("SLURM_JOB_ID", ""))
    port = options.port or _FIRST_PORT + int(job or 0) % _PORT_COUNT
    argv = ["srun", f"--nodes={len(hosts.names)}", f"--ntasks={hosts.world}", f"--ntasks-per-node={hosts.processes}"]
    argv += ["--kill-on-bad-exit=1"]
    if cores := os.environ.get("SLURM_CPUS_PER_TASK"):  # srun does not inherit it from the allocation
        argv += [f"--cpus-per-task={cores}"]
    env |= {"MASTER_ADDR": hosts.names[0], "MASTER_PORT": str(port)}
    argv += [host.python, "-m", _MODULE, *arguments]
    shown = shlex.join([*argv[: -len(arguments)], *arguments[:2], "…"])
    note = f"{_summary(hosts)}: MASTER_ADDR={hosts.names[0]} MASTER_PORT={port} {shown}"
    return LaunchCommand(tuple(argv), env, (note,))


def _hostfile_runner(
    options: Options, hosts: HostList, host: Host, env: dict[str, str], arguments: list[str]
) -> LaunchCommand:
    """Start the processes of all hosts by DeepSpeed's runner, through pdsh and ssh."""
    runner = ["--hostfile", str(Path(options.hosts).absolute()), "--num_accelerators", str(hosts.processes)]
    runner += _port(options)
    launcher = (host.python, "-m", "jprep_deepspeed.worker.launcher")
    argv = (*launcher, *runner, *sorted(env), "--", _MODULE, *arguments)
    needs = "each host needs ssh without a password, and the run directory and the environment"
    note = f"{_summary(hosts)}, started by DeepSpeed's runner through pdsh; {needs} {Path(host.python).parents[1]}"
    return LaunchCommand(argv, env, (f"{note} at the same paths",))


def _summary(hosts: HostList) -> str:
    names = ", ".join(hosts.names[:4]) + (" …" if len(hosts.names) > 4 else "")
    return f"{len(hosts.names)} hosts ({names}) × {hosts.processes} processes"


def _port(options: Options) -> list[str]:
    return ["--master_port", str(options.port or DEFAULT_PORT)]
