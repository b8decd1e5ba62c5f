"""XLA devices in plans: environments, variables of PJRT, flags of workers."""

from __future__ import annotations

import argparse
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Environment
from jprep.train.launcher.multihost import multihost_note
from jprep.train.planning.host import tpu_count
from jprep.train.planning.machine import TpuMachineOptions, devices_per_host

TORCH_XLA_ENVIRONMENT = Environment(
    name="fairseq-xla",
    distribution="jprep-fairseq-xla",
    extras=("worker", "xla"),
    needs="torch_xla",
    install="fairseq-xla --set device=xla",
)
"""The environment with torch_xla and the PyTorch that it was built for, which the backend fairseq-xla uses too."""

TORCH_TPU_ENVIRONMENT = Environment(
    name="torch-tpu",
    distribution="jprep-torch",
    extras=("worker", "tpu"),
    needs="torch_tpu",
    install="torch --set device=tpu",
)
"""The environment with torch_tpu, the successor of torch_xla, and a newer PyTorch."""

XLA_DEVICES = frozenset({"xla", "tpu"})
"""Devices whose programs XLA compiles, one for each shape and each constant."""


def xla_device_count(requested: int, hosts: int, machine: TpuMachineOptions, section: str) -> int:
    """Return the number of XLA devices of all hosts.

    Args:
        requested: devices of each host; 0 is all of the named TPU, or of this host, or one virtual device on the CPU.
        hosts: number of hosts.
        machine: the options, which may name a TPU.
        section: their section of the recipe, for messages.

    Raises:
        ConfigError: the devices of the named TPU cannot be divided among the hosts.
    """
    return hosts * (requested or devices_per_host(machine, hosts, section) or tpu_count() or 1)


def check_hosts(hosts: int, device: str, section: str) -> None:
    """Check the option `hosts`.

    Raises:
        ConfigError: it is below 1, or above 1 without XLA.
    """
    where = f"{section}.hosts"
    if hosts < 1:
        raise ConfigError(f"hosts is {hosts}, and must be 1 or more", where=where, fix="1, or the hosts of a TPU slice")
    if hosts > 1 and device != "xla":
        fix = f'set {section}.device = "xla", or leave hosts out'
        raise ConfigError("several hosts are supported for a TPU slice only", where=where, fix=fix)


def worker_flags(devices: int, hosts: int) -> list[str]:
    """Return the worker's flags for XLA devices, see `add_worker_flags`."""
    return ["--devices", str(devices), *(["--hosts", str(hosts)] if hosts > 1 else [])]


def add_worker_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for XLA devices to a worker's parser."""
    parser.add_argument("--devices", type=int, default=1, help="XLA devices of all hosts that rows are divided among")
    parser.add_argument("--hosts", type=int, default=1, help="hosts with XLA devices, one process each")
    parser.add_argument("--process", type=int, default=0, help="number of this host, from 0")


def environment_variables(devices: int, *, tpu: bool) -> dict[str, str]:
    """Return the variables of PJRT and torch_xla.

    Args:
        devices: XLA devices of all hosts.
        tpu: whether they are TPUs.
    """
    # Without the first one, each 0 or 1 among the numbers of a step is compiled as a constant, in a program of its own.
    common = {"XLA_NO_SPECIAL_SCALARS": "1"}
    if tpu:
        return common | {"PJRT_DEVICE": "TPU"}
    return common | {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)}


def plan_notes(run: Path, devices: int, hosts: int, *, tpu: bool) -> tuple[str, ...]:
    """Return a plan's notes on XLA devices, and the command for other hosts.

    Args:
        run: the run directory.
        devices: XLA devices of all hosts.
        hosts: number of hosts.
        tpu: whether the devices are TPUs.
    """
    kind = "TPU device" if tpu else "virtual CPU device"
    where = "in one process (SPMD)" if hosts == 1 else f"of {hosts} hosts, one process each (SPMD)"
    variables = ", ".join(f"{name}={value}" for name, value in environment_variables(devices, tpu=tpu).items())
    notes = (f"{devices} {kind}{'s' * (devices > 1)} through XLA, {where}", f"sets {variables}")
    if hosts == 1:
        return notes
    trial = () if tpu else ("no TPU here: each process computes the whole batch, and the first one writes",)
    return (*notes, *trial, multihost_note(run, hosts))
