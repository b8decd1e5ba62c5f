"""The disk and the main memory of the hosts that a run takes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from jprep.train.backend import Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import USABLE_SHARE, default_target

_GB = 1e9

_WEIGHT, _STATE = 4, 12
"""Bytes per weight in fp32, and with AdamW's two averages."""

_PROCESS = 2_000_000_000
"""Bytes of a process with a framework and its driver, besides tensors."""

_BATCHES, _TOKEN = 5, 20
"""Batches that a process holds (this one, two prefetched, one being drawn, one on its way to the device), and the bytes
of one of their tokens: ids, labels, masks."""


class StorageEstimate(NamedTuple):
    """The estimated disk of a run.

    Attributes:
        checkpoint: bytes of one checkpoint.
        total: bytes of all that are kept, of the one being written, and of the initial weights.
        text: the estimate as text, and the free disk if the run is planned for this machine.
        warning: that the disk is too small, or "".
    """

    checkpoint: int
    total: int
    text: str
    warning: str = ""


class HostMemory(NamedTuple):
    """The estimated main memory of each host of a run on accelerators.

    Attributes:
        total: bytes of one host.
        fits: whether the host has it; None if its memory is unknown.
        text: the estimate as text.
        warning: that the host has too little, or "".
    """

    total: int
    fits: bool | None
    text: str
    warning: str = ""


def estimate_storage(job: Job, plan: Plan, host: Host, run: Path) -> StorageEstimate:
    """Estimate the disk of checkpoints: kept ones, the one that is being written, and what the run begins with.

    Args:
        job: the job.
        plan: the backend's plan.
        host: this host.
        run: the run directory.
    """
    keep, each = job.train.checkpoint, _STATE * job.parameters
    kept = keep.keep_last + keep.keep_best
    continues = job.train.model.continue_training
    total = (kept + 1 + int(plan.divided) + int(continues)) * each + _WEIGHT * job.parameters
    written = "one being written" + (" (and the pieces that it is joined from)" if plan.divided else "")
    more = ", one for the training to continue," if continues else ""
    text = f"{_gb(total)} for {kept} checkpoints of {_gb(each)}, {written}{more} and the initial weights"
    if (plan.target or default_target(plan, host)).elsewhere:
        return StorageEstimate(each, total, text)
    free = _free_disk(run)
    text += f"; {_gb(free)} are free here"
    small = f"the disk has {_gb(free)} free, and checkpoints take {_gb(total)}: lower train.checkpoint.keep_last"
    return StorageEstimate(each, total, text, small if free < total else "")


def estimate_host_memory(job: Job, plan: Plan, host: Host) -> HostMemory | None:
    """Estimate the main memory of each host; None on a CPU, where it is the device's memory.

    It holds, for each process: the framework, batches, labelled rows, offloaded tensors; and once a copy of the state
    while a checkpoint is saved. A dataset of tokens is memory-mapped, and its pages can be freed at any time.

    Args:
        job: the job.
        plan: the backend's plan.
        host: this host.
    """
    target = plan.target or default_target(plan, host)
    if target.on_host or target.kind == "cpu":
        return None
    processes = max(1, plan.processes // target.hosts)
    parts = {"processes": processes * _PROCESS, "loaders": processes * _loader(job, plan)}
    parts |= {"offloaded": processes * plan.host_memory, "a checkpoint": _STATE * job.parameters}
    total = sum(parts.values())
    available = target.host_memory * max(1, target.count // target.hosts)
    fits = total <= USABLE_SHARE * available if available else None
    has = f"the host has {_gb(available)}" if available else f"name its memory: {_option(job)}"
    small = f"each host needs about {_gb(total)} of main memory and has {_gb(available)}: {_option(job)} plans for more"
    text = f"{_gb(total)} a host, estimated ({_parts(parts)}); {has}"
    return HostMemory(total, fits, text, small if fits is False else "")


def _loader(job: Job, plan: Plan) -> int:
    """Return the bytes of batches and labelled rows in one process. Each process may draw the whole global batch."""
    section = job.train
    length = section.longest
    batch = -(-section.batch // plan.processes)
    rows = job.samples if section.data else 0
    return (_BATCHES * batch + rows) * length * _TOKEN


def _parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {_gb(size)}" for name, size in parts.items() if size)


def _option(job: Job) -> str:
    return f"--set train.backend.{job.backend}.host_memory=GIB"


def _free_disk(run: Path) -> int:
    folder = run.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _gb(size: float) -> str:
    return f"{size / _GB:,.{2 if size < 100 * _GB else 0}f} GB"
