"""Parts of sharded tensors; a tensor that is not sharded is its own only part. FSDP2 is imported only where needed."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def local_part(tensor: Any) -> Tensor:
    """Return this process's part of a tensor, which shares its memory."""
    found: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()
    return found


def sharded_rows(rows: int, rank: int, world: int) -> range:
    """Return the rows of a tensor that a process has if FSDP2 shards it; the last processes may have none.

    Args:
        rows: size of the tensor's first dimension.
        rank: the process.
        world: number of processes.
    """
    each = -(-rows // world)
    return range(min(rank * each, rows), min((rank + 1) * each, rows))


def gather_whole(tensor: Any) -> Tensor:
    """Return a whole tensor on each device, gathered if it is sharded."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found


def sharded_part(part: Tensor, weight: Any) -> Tensor:
    """Return a tensor that is sharded as a weight is, from this process's part of it."""
    if not hasattr(weight, "to_local"):
        return part
    from torch.distributed.tensor import DTensor

    sharded: Tensor = DTensor.from_local(
        part, weight.device_mesh, weight.placements, run_check=False, shape=weight.shape, stride=weight.stride()
    )
    return sharded


def shard_whole(whole: Tensor, weight: Any) -> Tensor:
    """Return a tensor, which each process has whole, sharded as a weight is."""
    if not hasattr(weight, "full_tensor"):
        return whole
    from jprep_torch.worker.distributed.fsdp import shard_tensor

    return shard_tensor(whole, weight, whole.device)
