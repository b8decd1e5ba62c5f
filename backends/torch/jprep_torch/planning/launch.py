"""The command that starts workers, and their environment variables."""

from __future__ import annotations

from pathlib import Path

from jprep.train.backend import WORKER_VARIABLES, Host
from jprep_torch.planning import xla
from jprep_torch.planning.layout import Layout


def launch_command(layout: Layout) -> list[str]:
    """Return the arguments between the interpreter and the worker's module."""
    if layout.placed:
        return ["-m"]
    if layout.device == "tpu" and layout.processes > 1:
        return ["-m", "jprep_torch.worker.launcher", str(layout.processes)]
    return torchrun_command(layout.processes)


def torchrun_command(processes: int, port: int = 0) -> list[str]:
    """Return the arguments between the interpreter and the worker's module, without torchrun for one process.

    Args:
        processes: number of processes on this machine.
        port: port of the rendezvous; 0 is a free one.
    """
    if processes == 1:
        return ["-m"]
    rendezvous = ["--master-port", str(port)] if port else ["--standalone"]
    return ["-m", "torch.distributed.run", *rendezvous, "--nproc-per-node", str(processes), "-m"]


def worker_arguments(run: Path, layout: Layout) -> list[str]:
    """Return the worker's arguments.

    Args:
        run: the run directory.
        layout: the layout.
    """
    # With XLA all hosts run one program, which takes the rows of all of them.
    rows = layout.micro_batch * (layout.hosts if layout.device == "xla" else 1)
    arguments = ["train", str(run), "--micro-batch", str(rows), "--device", layout.device]
    arguments += ["--shard"] if layout.shard else []
    return arguments + (xla.worker_flags(layout.devices, layout.hosts) if layout.device == "xla" else [])


def worker_environment(host: Host, device: str, processes: int, threads: int, *, deterministic: bool) -> dict[str, str]:
    """Return the environment variables of a worker.

    Args:
        host: the machine.
        device: `cpu`, `cuda`, `xla` or `tpu`.
        processes: number of processes on this machine.
        threads: CPU threads of each process; 0 divides the cores.
        deterministic: whether GPU kernels must not depend on the order of threads.
    """
    # Sums depend on the number of threads, so the plan sets it, and not the environment that jprep is started in.
    env = WORKER_VARIABLES | {"OMP_NUM_THREADS": str(threads or max(1, host.cores // processes))}
    if processes == 1:  # a cluster may have set the variables of torchrun
        env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    if device == "cuda" and deterministic:
        env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return env
