"""XLA's devices for plans: where they are driven from, what PJRT and workers are told. No framework is imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Environment
from jprep.train.launcher.multihost import multihost_note
from jprep.train.planning.host import tpu_count

TORCH_XLA_ENVIRONMENT = Environment(
    name="fairseq-xla",
    distribution="jprep-fairseq-xla",
    extras=("worker", "xla"),
    needs="torch_xla",
    install="fairseq-xla --set device=xla",
)
"""Where torch_xla is, with the PyTorch that it was built for: one environment for all that runs on it."""

TORCH_TPU_ENVIRONMENT = Environment(
    name="torch-tpu",
    distribution="jprep-torch",
    extras=("worker", "tpu"),
    needs="torch_tpu",
    install="torch --set device=tpu",
)
"""Where torch_tpu is: what follows torch_xla, with a newer PyTorch."""

XLA_DEVICES = frozenset({"xla", "tpu"})
"""Kinds of device that XLA computes for: it makes a program for each shape, and for each number that it is told."""


def xla_device_count(asked: int, hosts: int) -> int:
    """How many all hosts have: each as many as were asked for, else all TPUs, else one that the CPU plays."""
    return hosts * (asked or tpu_count() or 1)


def check_hosts(hosts: int, device: str, where: str) -> None:
    """See that there may be so many.

    Raises:
        ConfigError: there is none, or several are asked for without XLA.
    """
    if hosts < 1:
        raise ConfigError(f"{hosts} hosts are none", where=f"{where}.hosts", fix="1, or the hosts of a TPU slice")
    if hosts > 1 and device != "xla":
        fix = f'set {where}.device = "xla", or leave hosts out'
        raise ConfigError("several hosts are those of a TPU slice", where=f"{where}.hosts", fix=fix)


def worker_flags(devices: int, hosts: int) -> list[str]:
    """What a worker is told: see `add_worker_flags`."""
    return ["--devices", str(devices), *(["--hosts", str(hosts)] if hosts > 1 else [])]


def add_worker_flags(parser: argparse.ArgumentParser) -> None:
    """Those of a worker."""
    parser.add_argument("--devices", type=int, default=1, help="of XLA, of all hosts, that the rows are divided among")
    parser.add_argument("--hosts", type=int, default=1, help="of XLA: each has one process, and all run one program")
    parser.add_argument("--process", type=int, default=0, help="this host's number")


def environment_variables(devices: int) -> dict[str, str]:
    """What PJRT and torch_xla have to be told: of all hosts' devices, where the CPU plays them."""
    plain = {"XLA_NO_SPECIAL_SCALARS": "1"}  # else a 0 or 1 among the numbers of a step makes a program of its own
    if tpu_count():
        return plain | {"PJRT_DEVICE": "TPU"}
    return plain | {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)}


def plan_notes(run: Path, devices: int, hosts: int) -> tuple[str, ...]:
    """What a plan says of them, and of what is to be typed on other hosts."""
    kind = "TPU device" if tpu_count() else "virtual CPU device"
    where = "in one process (SPMD)" if hosts == 1 else f"of {hosts} hosts with a process on each (SPMD)"
    sets = ", ".join(f"{name}={value}" for name, value in environment_variables(devices).items())
    found = (f"{devices} {kind}{'s' * (devices > 1)} by XLA, {where}", f"sets {sets}")
    if hosts == 1:
        return found
    trial = () if tpu_count() else ("there is no TPU here: each process computes all of it, and the first one writes",)
    return (*found, *trial, multihost_note(run, hosts))
