"""Sharding with FSDP2. Imported only by runs that shard, since the import takes a second."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard_model(model: nn.Module, base_models: Iterable[Any], kind: str, world: int) -> None:
    """Shard a model layer by layer, so that one layer is whole at a time; all other weights form one group.

    Args:
        model: the whole model.
        base_models: transformers' base models in it.
        kind: kind of the devices.
        world: number of devices.
    """
    mesh = init_device_mesh(kind, (world,))
    for base_model in base_models:
        for layer in _layers(base_model):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def _layers(base_model: Any) -> Iterable[nn.Module]:
    """Return the layers of a model: GPT-2's `h`, `layers`, or an encoder's."""
    for name in ("h", "layers"):
        if hasattr(base_model, name):
            found: Iterable[nn.Module] = getattr(base_model, name)
            return found
    layers: Iterable[nn.Module] = base_model.encoder.layer
    return layers


def shard_tensor(whole: Tensor, like: DTensor, device: torch.device) -> DTensor:
    """Return this process's shard of a tensor that each process has whole.

    Args:
        whole: the tensor.
        like: a sharded tensor whose placement is used.
        device: the device.
    """
    return distribute_tensor(whole.to(device), like.device_mesh, like.placements, src_data_rank=None)
