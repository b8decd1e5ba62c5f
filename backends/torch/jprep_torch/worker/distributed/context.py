"""The device of this process, and its communication with the other processes of the run."""

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
from jprep_torch.planning.checks import DEVICE_FIXES
from jprep_torch.planning.xla import XLA_DEVICES

_MIN_TIMEOUT = 10.0  # minutes, PyTorch's default
_ROWS = "rows"
_NAMES = {"cuda": "GPU", "tpu": "TPU"}
_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Keeps the groups of this process until it ends. Otherwise DistributedDataParallel may free the last reference to one,
# and while it holds Python's global lock it would wait for Gloo's threads, which may wait for that lock.
_GROUPS: list[Any] = []


class DistributedContext:
    """The device of this process, its rank, and collective operations.

    Args:
        kind: `cpu`, `cuda`, `xla` or `tpu`.
        rank: rank of this process.
        world: number of processes that rows are divided among.
        devices: XLA devices of all hosts that rows are divided among.
        host: number of this host, if several hosts run one XLA program. Each has a single process with all rows, as if
            it were alone, and must execute the whole program.

    Attributes:
        first: whether this is the first process, which writes what all processes hold.
    """

    def __init__(self, kind: str, rank: int = 0, world: int = 1, devices: int = 1, host: int = 0) -> None:
        self.rank, self.world, self.kind = rank, world, kind
        self.first = not rank and not host
        self._mesh = _mesh(devices) if devices > 1 else None
        self.device = _device(kind)

    def shard_rows(self, rows: Tensor) -> Tensor:
        """Divide the first dimension among the XLA devices of this program, and with it all that is computed from it.

        Args:
            rows: (rows, …).
        """
        if self._mesh is not None:
            from torch_xla.distributed.spmd import mark_sharding

            mark_sharding(rows, self._mesh, (_ROWS, *[None] * (rows.dim() - 1)))
        return rows

    def put(self, tensor: Tensor) -> Tensor:
        """Return a tensor on the device, without waiting for the copy."""
        pinned = tensor.pin_memory() if self.kind == "cuda" else tensor
        return pinned.to(self.device, non_blocking=True)

    def sum_over_processes(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes. The argument may be overwritten."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def gather(self, part: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the arrays of all processes, which have the same shape, as (world, …)."""
        if self.world == 1:
            return part[None]
        mine = torch.from_numpy(part).to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(parts, mine)
        return torch.stack(parts).cpu().numpy()

    def autocast(self, precision: Precision) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which matrix products are computed in half precision, unless `precision` is fp32."""
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.kind, _HALF[precision])

    def number(self, value: float | Tensor) -> float | Tensor:
        """Return a number that changes from step to step in the form that the device needs.

        XLA compiles Python numbers as constants: each new value would need a new program.
        """
        if self.kind not in XLA_DEVICES or isinstance(value, Tensor):
            return value
        return torch.tensor(value, dtype=torch.float32).to(self.device)

    def seed(self, value: int) -> None:
        """Seed the random numbers of this process."""
        torch.manual_seed(value)
        if self.kind == "xla":
            import torch_xla

            torch_xla.manual_seed(value >> 1)  # 63 bits

    def compile_seconds(self) -> float:
        """Return the seconds that XLA has spent on compilation so far."""
        if self.kind != "xla":
            return 0.0
        from torch_xla.debug.metrics import metric_data

        _, nanoseconds, _ = metric_data("CompileTime") or (0, 0, ())
        return nanoseconds / 1e9

    def sync(self) -> None:
        """Execute the operations that XLA has recorded; other devices execute eagerly."""
        if self.kind == "xla":
            import torch_xla

            torch_xla.sync()


@contextlib.contextmanager
def join_processes(
    kind: str, *, deterministic: bool, timeout: timedelta, alone: bool = False, devices: int = 1, host: int = 0
) -> Iterator[DistributedContext]:
    """Join the process group of the run, and leave it at the end of the context.

    Args:
        kind: `cpu`, `cuda`, `xla` or `tpu`.
        deterministic: whether results on a GPU must not depend on the order of threads.
        timeout: how long to wait for other processes: the first one may be hashing a large checkpoint.
        alone: whether a single process creates a group too, which some libraries need.
        devices: XLA devices of all hosts that rows are divided among.
        host: number of this host in an XLA program of several hosts.

    Raises:
        MachineError: there is no such device, or the processes cannot connect.
    """
    rank, world = rank_and_world_size()
    if kind in _NAMES and not _is_available(kind):
        name = _NAMES[kind]
        raise MachineError(f"PyTorch finds no {name}", where="train.backend", fix=DEVICE_FIXES[name])
    context = DistributedContext(kind, rank, world, devices, host)
    if kind == "cuda":
        torch.cuda.set_device(context.device)
        torch.use_deterministic_algorithms(deterministic)  # with warn_only, attention would stay nondeterministic
        torch.utils.deterministic.fill_uninitialized_memory = False
    if world > 1 or alone:
        _init_process_group(context.device, world, timeout)
    try:
        yield context
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def process_timeout(job: Job) -> timedelta:
    """Return how long the processes of a run wait for each other."""
    return timedelta(minutes=max(_MIN_TIMEOUT, job.train.silent_minutes))


def rank_and_world_size(host: int = 0, hosts: int = 1) -> tuple[int, int]:
    """Return the rank of this process and the number of processes.

    Args:
        host: number of this host in an XLA program of several hosts.
        hosts: number of these hosts, with one process each; 1 reads the variables of torchrun.
    """
    if hosts > 1:
        return host, hosts
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _is_available(kind: str) -> bool:
    """Return whether PyTorch can use a kind of accelerator."""
    found = torch.accelerator.current_accelerator()
    return torch.accelerator.is_available() and found is not None and found.type == kind


def _init_process_group(device: torch.device, world: int, timeout: timedelta) -> None:
    single: dict[str, Any] = {"store": dist.HashStore(), "rank": 0, "world_size": 1} if world == 1 else {}
    try:
        dist.init_process_group(dist.get_default_backend_for_device(device), timeout=timeout, **single)
    except dist.DistNetworkError as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        fix = "stop the program that listens on this port, or set another one in the backend's options"
        raise MachineError(f"the processes of the run cannot connect: {error}", where=where, fix=fix) from error
    _GROUPS.append(dist.group.WORLD)


def _mesh(devices: int) -> Any:
    """Return a one-dimensional mesh of the devices of all hosts."""
    import torch_xla.runtime as xla
    from torch_xla.distributed.spmd import Mesh

    xla.use_spmd()  # before any device is used
    if (found := xla.global_runtime_device_count()) != devices:
        count = xla.process_count()
        what = f"PJRT finds {found} devices in {count} process{'es' * (count > 1)}, but the plan has {devices}"
        fix = f"set devices = {found // count} and hosts = {count}; start the worker on each host of a slice"
        raise MachineError(what, where="train.backend", fix=fix)
    return Mesh(np.arange(devices), (devices,), (_ROWS,))


def _device(kind: str) -> torch.device:
    if kind == "xla":
        import torch_xla

        return torch_xla.device()
    if kind != "cuda":  # with torch_tpu each process sees one device
        return torch.device(kind)
    single = torch.cuda.device_count() == 1  # schedulers may show each process its own GPU only
    return torch.device(kind, 0 if single else int(os.environ.get("LOCAL_RANK", "0")))
