"""Sharding with FSDP2. Imported only by runs that shard, since the import takes a second."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

_LAYERS = {"gpt2": "h", "llama": "layers"}


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
        model_type = base_model.config.model_type
        layers = getattr(base_model, _LAYERS[model_type]) if model_type in _LAYERS else base_model.encoder.layer
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def shard_tensor(whole: Tensor, like: DTensor, device: torch.device) -> DTensor:
    """Return this process's shard of a tensor that each process has whole.

    Args:
        whole: the tensor.
        like: a sharded tensor whose placement is used.
        device: the device.
    """
    return distribute_tensor(whole.to(device), like.device_mesh, like.placements, src_data_rank=None)
