"""The command that starts workers: those of this host, or a single one that jprep starts on each host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.train.backend import Host
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning.layout_types import Layout
from jprep_torch.planning.launch import torchrun_command, worker_environment

DEFAULT_PORT = 29500
"""The default rendezvous port of PyTorch and DeepSpeed."""

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


def launch_command(options: Options, processes: int, host: Host, device: str, arguments: list[str]) -> LaunchCommand:
    """Return the command that starts the workers of a run.

    Args:
        options: the backend's options.
        processes: number of processes on each host.
        host: this machine, and the hosts of the run.
        device: `cpu` or `cuda`.
        arguments: the worker's arguments.
    """
    env = worker_environment(host, device, processes, options.threads, deterministic=options.deterministic)
    env["DS_ACCELERATOR"] = device  # by default DeepSpeed uses a GPU if there is one
    if host.nodes:  # jprep starts each process
        env |= {"MASTER_PORT": str(options.port)} if options.port else {}
        return LaunchCommand((host.python, "-m", _MODULE, *arguments), env, ())
    if options.launcher == "torchrun" or processes == 1:
        command = torchrun_command(processes, options.port)
        return LaunchCommand((host.python, *command, _MODULE, *arguments), env, ())
    return _local_runner(options, processes, host, device, env, arguments)


def _local_runner(
    options: Options, processes: int, host: Host, device: str, env: dict[str, str], arguments: list[str]
) -> LaunchCommand:
    """Start the processes of this host by DeepSpeed's runner."""
    command = ["deepspeed.launcher.runner", "--hostfile", "", *_port(options), "--no_local_rank"]
    notes: tuple[str, ...] = ()
    if device == "cpu" or processes < len(host.devices):
        command += ["--num_accelerators", str(processes)]
        if device == "cuda":
            notes = ("DeepSpeed's launcher uses the first GPUs and ignores CUDA_VISIBLE_DEVICES",)
    return LaunchCommand((host.python, "-m", *command, "--module", _MODULE, *arguments), env, notes)


def _port(options: Options) -> list[str]:
    return ["--master_port", str(options.port or DEFAULT_PORT)]
