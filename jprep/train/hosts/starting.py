"""The command that starts the launchers of an attempt, and `python -m jprep.train.hosts.starting RUN ATTEMPT`.

`srun` starts all of them. ssh, `pbs_tmrsh` and `qrsh -inherit` start a command on one host; this module calls them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jprep.train.backend import Placement, Plan
from jprep.train.hosts.files import CANNOT_START, HostState, read_host_state, write_host_state
from jprep.train.hosts.host_launcher import MODULE as HOST_LAUNCHER
from jprep.train.run.directory import read_plan
from jprep.train.run.log import on_stderr

_MODULE = "jprep.train.hosts.starting"

REMOTE_SHELLS = {
    "ssh": ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=15"),
    "pbs_tmrsh": ("pbs_tmrsh",),
    "qrsh": ("qrsh", "-inherit"),
}
"""A starter → the command before the name of a host and the command to run there."""

_FORWARDED = (
    "JPREP_",
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "UCX_",
    "FI_",
    "TORCH_",
    "DS_",
    "JAX_",
    "XLA_",
    "HF_",
    "OMP_",
    "MKL_",
)
_FORWARDED_NAMES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR")
_SECRET = re.compile("TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL")  # every user of this host can read the command of ssh
_NOT_INHERITED = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_GPU", "SLURM_NNODES",
                  "SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_DISTRIBUTION",
                  "SLURM_NODELIST", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_OVERLAP",
                  "SLURM_EXACT", "SLURM_KILL_BAD_EXIT", "SLURM_THREADS_PER_CORE")  # fmt: skip
"""Variables from which srun would take options that are made for one task per GPU or core."""

_POLL_SECONDS = 0.2


def attempt_command(run: Path, plan: Plan, attempt: str) -> tuple[str, ...]:
    """Return the command that starts the processes of an attempt.

    Args:
        run: the run directory.
        plan: the plan; without a placement it is the command itself.
        attempt: the attempt's name.
    """
    if plan.placement is None:
        return plan.argv
    python = plan.argv[0]
    launcher = (python, "-m", HOST_LAUNCHER, str(run), attempt)
    if plan.placement.starter == "srun":
        return (*_srun(plan.placement), *launcher)
    if plan.placement.starter == "join":
        return (*launcher, "0")
    return (sys.executable, "-m", _MODULE, str(run), attempt)


def attempt_environment(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of that command."""
    if plan.placement and plan.placement.starter == "srun":
        environ = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
    return {**environ, **plan.env}


def _srun(placement: Placement) -> list[str]:
    """Start one launcher for each host in a step that shares the allocation with the supervisor's own."""
    count = len(placement.names)
    options = {"nodes": count, "ntasks": count, "ntasks-per-node": 1, "nodelist": ",".join(placement.names)}
    options |= {
        "mem": 0,
        "cpu-bind": "none",
        "mpi": "none",
        "kill-on-bad-exit": 0,
        "wait": 0,
        "input": "none",
        "export": "ALL",
    }
    return ["srun", "--overlap", "--unbuffered", *(f"--{name}={value}" for name, value in options.items())]


def main(arguments: Sequence[str]) -> int:
    """Start a launcher on each host, and wait for all of them. Return the first exit code that is not 0."""
    run, attempt = Path(arguments[0]), arguments[1]
    plan = read_plan(run)
    assert plan.placement is not None
    command = [plan.argv[0], "-m", HOST_LAUNCHER, str(run), attempt]
    started = [
        _start(plan.placement, name, [*command, str(number)]) for number, name in enumerate(plan.placement.names)
    ]
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(stop, signal.SIG_IGN)  # the launchers end when the supervisor says so
    codes: dict[int, int] = {}
    while len(codes) < len(started):
        for number, process in enumerate(started):
            if number not in codes and (code := process.poll()) is not None:
                codes[number] = code
                _report(run, attempt, number, plan.placement.names[number], code)
        time.sleep(_POLL_SECONDS)
    return next((code if code > 0 else 128 - code for code in codes.values() if code), 0)


def _report(run: Path, attempt: str, number: int, name: str, code: int) -> None:
    """Tell the supervisor of a launcher that has never started."""
    if code and read_host_state(run, attempt, number) is None:
        on_stderr(f"jprep: no launcher could be started on {name}: exit code {code}")
        write_host_state(run, attempt, number, HostState(0, CANNOT_START, name))


def _start(placement: Placement, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    if name in (socket.gethostname(), socket.getfqdn(), "localhost"):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)
    remote = [*REMOTE_SHELLS[placement.starter], name, f"exec env {_variables()} {shlex.join(command)}"]
    return subprocess.Popen(remote, stdin=subprocess.DEVNULL)


def _variables() -> str:
    """Return the variables that another host needs, without secrets; those of the plan are in `plan.json`."""
    kept = (name for name in os.environ if name.startswith(_FORWARDED) or name in _FORWARDED_NAMES)
    return shlex.join(f"{name}={os.environ[name]}" for name in sorted(kept) if not _SECRET.search(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
