"""Norms with about the precision of float32 on every device.

On a CPU, `torch.linalg.vector_norm` adds the squares of a tensor one after another: of 38 million it loses 0.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_BLOCK = 1 << 12
"""Numbers whose squares are added one after another on a CPU; the error is below 1e-6."""


def vector_norm(tensor: Tensor) -> Tensor:
    """Return √Σ x² of a tensor that is not sharded."""
    if tensor.device.type != "cpu" or tensor.numel() <= _BLOCK:
        return torch.linalg.vector_norm(tensor)
    flat = tensor.reshape(-1) if tensor.dtype.itemsize >= 4 else tensor.reshape(-1).float()
    end = flat.numel() // _BLOCK * _BLOCK
    blocks = torch.linalg.vector_norm(flat[:end].view(-1, _BLOCK), dim=1)
    return torch.linalg.vector_norm(torch.cat([blocks, torch.linalg.vector_norm(flat[end:]).view(1)]))


def total_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return √Σ x² over all tensors, of all ranks if they are sharded; a scalar on their device."""
    if any(tensor.device.type != "cpu" for tensor in tensors):
        norm: Any = torch.nn.utils.get_total_norm(tensors)
        whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        return whole
    alike = dict[Any, list[Any]]()
    for tensor in tensors:
        alike.setdefault((getattr(tensor, "device_mesh", None), getattr(tensor, "placements", None)), []).append(tensor)
    total = torch.zeros((), dtype=torch.float64)
    for (mesh, _), group in alike.items():
        total += _sum_of_squares(group) if mesh is None else _sum_over_ranks(group)
    return total.sqrt().float()


def _sum_of_squares(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([vector_norm(tensor) for tensor in tensors]).double().square().sum()


def _sum_over_ranks(tensors: Sequence[Any]) -> Tensor:
    """Return Σ x² of tensors that are sharded alike, by one reduction."""
    from torch.distributed.tensor import DTensor, Partial, Replicate  # sharded weights have imported it

    here = _sum_of_squares([tensor.to_local() for tensor in tensors])
    parts = [Replicate() if each.is_replicate() else Partial() for each in tensors[0].placements]
    found: Tensor = DTensor.from_local(here, tensors[0].device_mesh, parts, run_check=False).full_tensor()
    return found
