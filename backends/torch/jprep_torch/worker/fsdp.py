"""A model divided among several devices (FSDP2). Imported only where one is: it takes a second."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

_LAYERS = {"gpt2": "h", "llama": "layers"}


def shard(trainee: nn.Module, body: Any, kind: str, world: int) -> None:
    """Divide layer by layer, so that only one is whole at a time; what is around the layers belongs together.

    Args:
        trainee: the whole.
        body: transformers' base model in it.
        kind: of the devices.
        world: how many there are.
    """
    mesh = init_device_mesh(kind, (world,))
    kind_of_model = body.config.model_type
    layers = getattr(body, _LAYERS[kind_of_model]) if kind_of_model in _LAYERS else body.encoder.layer
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(trainee, mesh=mesh)


def part(whole: Tensor, like: DTensor, device: torch.device) -> DTensor:
    """This process's part of a tensor that each has whole, divided as another one is."""
    return distribute_tensor(whole.to(device), like.device_mesh, like.placements, src_data_rank=None)
