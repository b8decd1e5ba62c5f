"""Detect the CPU cores, memory and accelerators of this host."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from jprep.io.machine import cpu_count, memory
from jprep.train.backend import Host

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits")
_MIB = 1 << 20
_GOOGLE, _PCI = "0x1ae0", Path("/sys/bus/pci/devices")
_CORES = {"0x0027": 2, "0x0056": 1, "0x005e": 1, "0x0062": 1, "0x0063": 1, "0x006f": 1, "0x0076": 1}
"""PCI device id of a Google TPU → devices per chip that programs see; two for v2 and v3."""


class Accelerator(NamedTuple):
    """One accelerator.

    Attributes:
        number: the driver's index, from 0.
        uuid: its unique id.
        memory: its memory in bytes; 0 if unknown.
        name: its product name.
    """

    number: str
    uuid: str
    memory: int
    name: str


def this_host(python: Path) -> Host:
    """Return a description of this host.

    Args:
        python: the interpreter of the backend's environment.
    """
    found = accelerators()
    names = tuple(one.name for one in found)
    return Host(str(python), cpu_count(), memory(), names, min((one.memory for one in found), default=0))


def accelerators() -> list[Accelerator]:
    """Return the NVIDIA GPUs that `CUDA_VISIBLE_DEVICES` allows; none without a driver."""
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    found = [_accelerator(line) for line in lines if line.count(",") >= 3]
    return found if _VISIBLE not in os.environ else _visible(found, os.environ[_VISIBLE])


def tpu_count() -> int:
    """Return how many TPU devices programs see on this host."""

    def about(device: Path, what: str) -> str:
        return (device / what).read_text().strip()

    with contextlib.suppress(OSError):
        found = [device for device in _PCI.iterdir() if about(device, "vendor") == _GOOGLE]
        return sum(_CORES.get(about(device, "device"), 0) for device in found)
    return 0


def has_accelerator() -> bool:
    """Return whether this host has an NVIDIA GPU or a TPU that programs see."""
    return bool(accelerators() or tpu_count())


def _accelerator(line: str) -> Accelerator:
    number, uuid, size, name = (part.strip() for part in line.split(",", 3))
    return Accelerator(number, uuid, int(size) * _MIB if size.isdecimal() else 0, name)


def _visible(found: list[Accelerator], wanted: str) -> list[Accelerator]:
    """Return the devices named in `CUDA_VISIBLE_DEVICES`, up to the first invalid name, as CUDA does."""
    chosen = []
    for name in map(str.strip, wanted.split(",")):
        match = [one for one in found if name and (one.number == name or one.uuid.startswith(name))]
        if len(match) != 1:
            break
        chosen += match
    return chosen
