"""Where a process computes, and how it speaks with the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from jprep.errors import MachineError
from jprep.train.job.config import Job, Precision
from jprep_torch.backend import DEVICE_FIXES
from jprep_torch.planning.xla import XLA_DEVICES

_LEAST_PATIENCE = 10.0  # minutes, as PyTorch has them
_ROWS = "rows"
_NAMES = {"cuda": "GPU", "tpu": "TPU"}
_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


class DistributedContext:
    """This process's device, and its place among the others.

    Args:
        kind: `cpu`, `cuda`, `xla` or `tpu`.
        rank: this process's number.
        world: how many there are, which divide rows among them.
        devices: of XLA, of all hosts, that rows are divided among.
        host: of XLA: this host's number. Each has one process, which has all rows as if it were alone: together they
            run one program, and each of them has to run all of it.

    Attributes:
        first: whether this process is the one that writes.
        saves: whether it takes part in saving what every process has whole: the first one, and all of XLA's hosts.
    """

    def __init__(self, kind: str, rank: int = 0, world: int = 1, devices: int = 1, host: int = 0) -> None:
        self.rank, self.world, self.kind = rank, world, kind
        self.first = not rank and not host
        self.saves = self.first or kind == "xla"
        self._mesh = _mesh(devices) if devices > 1 else None
        self.device = _device(kind)

    def divided(self, rows: Tensor) -> Tensor:
        """Rows, (rows, …), of which each of XLA's devices has its share. What is computed of them then is, too."""
        if self._mesh is not None:
            from torch_xla.distributed.spmd import mark_sharding

            mark_sharding(rows, self._mesh, (_ROWS, *[None] * (rows.dim() - 1)))
        return rows

    def total(self, value: Tensor) -> Tensor:
        """The sum of all processes' values."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def gathered(self, part: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """All processes' arrays of one shape, (world, …)."""
        if self.world == 1:
            return part[None]
        mine = torch.from_numpy(part).to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(parts, mine)
        return torch.stack(parts).cpu().numpy()

    def autocast(self, precision: Precision) -> contextlib.AbstractContextManager[Any]:
        """Half precision for matrix products, where the job wants it."""
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.kind, _HALF[precision])

    def number(self, value: float) -> float | Tensor:
        """A number that changes from step to step: XLA would compile anew for each value of one that it is told."""
        return torch.tensor(value, dtype=torch.float32).to(self.device) if self.kind in XLA_DEVICES else value

    def seed(self, value: int) -> None:
        """Begin this process's random numbers anew."""
        torch.manual_seed(value)
        if self.kind == "xla":
            import torch_xla

            torch_xla.manual_seed(value >> 1)  # of 63 bits

    def compiled(self) -> float:
        """Seconds that XLA has compiled so far."""
        if self.kind != "xla":
            return 0.0
        from torch_xla.debug.metrics import metric_data

        _, nanoseconds, _ = metric_data("CompileTime") or (0, 0, ())
        return nanoseconds / 1e9

    def sync(self) -> None:
        """Have XLA compute what it was given so far; other devices have begun already."""
        if self.kind == "xla":
            import torch_xla

            torch_xla.sync()


@contextlib.contextmanager
def join_processes(
    kind: str, *, deterministic: bool, patience: timedelta, alone: bool = False, devices: int = 1, host: int = 0
) -> Iterator[DistributedContext]:
    """Join the other processes that a launcher has started, and leave them at the end.

    Args:
        kind: `cpu`, `cuda`, `xla` or `tpu`.
        deterministic: whether results may not depend on the order that a GPU's threads come in.
        patience: how long to wait for the others: the first one may be hashing a large checkpoint.
        alone: whether a process that is the only one makes a group as well; some libraries want one.
        devices: of XLA, of all hosts, that rows are divided among.
        host: of XLA, this one's number.

    Raises:
        MachineError: there is no such device, or the processes cannot meet.
    """
    rank, world = rank_and_world_size()
    if kind in _NAMES and not _is_there(kind):
        name = _NAMES[kind]
        raise MachineError(f"PyTorch finds no {name}", where="train.backend", fix=DEVICE_FIXES[name])
    place = DistributedContext(kind, rank, world, devices, host)
    if kind == "cuda":
        torch.cuda.set_device(place.device)
        torch.use_deterministic_algorithms(deterministic)  # if it only warned, attention would stay as it is
        torch.utils.deterministic.fill_uninitialized_memory = False
    if world > 1 or alone:
        _meet(place.device, world, patience)
    try:
        yield place
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _is_there(kind: str) -> bool:
    """Whether PyTorch can use such a device."""
    found = torch.accelerator.current_accelerator()
    return torch.accelerator.is_available() and found is not None and found.type == kind


def _meet(device: torch.device, world: int, patience: timedelta) -> None:
    one: dict[str, Any] = {"store": dist.HashStore(), "rank": 0, "world_size": 1} if world == 1 else {}
    try:
        dist.init_process_group(dist.get_default_backend_for_device(device), timeout=patience, **one)
    except dist.DistNetworkError as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        fix = "end what listens there, or take another port in the backend's options"
        raise MachineError(f"the processes of the run cannot meet: {error}", where=where, fix=fix) from error


def _mesh(devices: int) -> Any:
    """All devices of all hosts in a row, in one program."""
    import torch_xla.runtime as xla
    from torch_xla.distributed.spmd import Mesh

    xla.use_spmd()  # before anything asks for a device
    if (found := xla.global_runtime_device_count()) != devices:
        count = xla.process_count()
        what = f"PJRT finds {found} devices, of {count} process{'es' * (count > 1)}, and the plan has {devices}"
        fix = f"devices = {found // count} and hosts = {count}; of a slice each host has to be started"
        raise MachineError(what, where="train.backend", fix=fix)
    return Mesh(np.arange(devices), (devices,), (_ROWS,))


def _device(kind: str) -> torch.device:
    if kind == "xla":
        import torch_xla

        return torch_xla.device()
    if kind != "cuda":  # a process has one device of a TPU
        return torch.device(kind)
    only = torch.cuda.device_count() == 1  # schedulers may show each process its own GPU alone
    return torch.device(kind, 0 if only else int(os.environ.get("LOCAL_RANK", "0")))


def process_timeout(job: Job) -> timedelta:
    """How long the processes of a run wait for each other."""
    return timedelta(minutes=max(_LEAST_PATIENCE, job.train.silent_minutes))


def rank_and_world_size(host: int = 0, hosts: int = 1) -> tuple[int, int]:
    """This process's number, and how many there are: as torchrun says it, or one on each of XLA's hosts."""
    if hosts > 1:
        return host, hosts
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
