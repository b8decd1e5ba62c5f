"""Muon of weights that DeepSpeed has joined to flat tensors, of which each process updates a part (stages 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from deepspeed.accelerator import get_accelerator
from torch import Tensor, distributed, nn

from jprep.io.safetensors_file import Shape
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_torch.worker.update_rules.muon import Muon

_GROUPS = (
    ("fp32_partitioned_groups_flat", "fp16_groups"),  # stage 3
    ("single_partition_of_fp32_groups", "bit16_groups"),  # stages 1 and 2
    ("fp32_groups_flat_partition", "bf16_groups"),  # stage 1 in bf16
)
"""Attributes of DeepSpeed's optimizers: this process's flat tensors, and the weights that each stands for."""


class _Part(NamedTuple):
    """The numbers of a weight that this process updates.

    Attributes:
        weight: the weight, which may have lost its shape.
        start: where they begin in the weight.
        flat_start: where they begin in the flat tensor.
        size: how many they are; 0 if other processes update the whole weight.
    """

    weight: nn.Parameter
    start: int
    flat_start: int
    size: int


class ShardedMuon(Muon):
    """Muon that takes whole matrices together from the parts of all processes.

    One matrix at a time is whole. Each process computes the directions of the matrices that it updates a part of.

    Args:
        weights: trained weights by name; sharded weights may have lost their shape.
        shapes: shapes of the whole weights.
        section: the job's optimizer section.
    """

    def __init__(
        self, weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig
    ) -> None:
        super().__init__(weights, shapes, section)
        self._shapes = {weight: shapes[name] for name, weight in weights.items()}
        self._parts_of: dict[Tensor, list[_Part]] = {}

    def find_parts(self, zero: Any) -> None:
        """Find the parts of the flat tensors of DeepSpeed's optimizer. Call it before the first step."""
        flats, groups = next(names for names in _GROUPS if all(hasattr(zero, name) for name in names))
        part = _part_in_stage_3 if flats == _GROUPS[0][0] else _part_in_stages_1_and_2
        for flat, weights in zip(getattr(zero, flats), getattr(zero, groups), strict=True):
            self._parts_of[flat] = [part(zero, weight) for weight in weights]

    def _direction(self, weight: nn.Parameter, update: Tensor) -> Tensor:
        direction = torch.zeros_like(update)
        for part in self._parts_of[weight]:
            whole = self._gather(part, update)
            if part.size:
                found = self._orthogonal_parts(part.weight, whole).flatten()
                direction.narrow(0, part.flat_start, part.size).copy_(found.narrow(0, part.start, part.size))
        return direction

    def _gather(self, part: _Part, update: Tensor) -> Tensor:
        """Return the whole update of a weight on the device. Each process must call it for the same weights in turn."""
        whole = torch.zeros(self._shapes[part.weight], device=get_accelerator().current_device_name())
        own = whole.view(-1).narrow(0, part.start, part.size)
        own.copy_(update.narrow(0, part.flat_start, part.size))
        distributed.all_reduce(whole)  # adds zeros only, so each number stays as it is
        return whole


def _part_in_stages_1_and_2(zero: Any, weight: Any) -> _Part:
    found = weight._hp_mapping
    if found is None:
        return _Part(weight, 0, 0, 0)
    in_weight, in_flat = found.lp_fragment_address, found.hp_fragment_address
    return _Part(weight, in_weight.start, in_flat.start, in_flat.numel)


def _part_in_stage_3(zero: Any, weight: Any) -> _Part:
    _, flat_start, size = zero.grad_position[zero.get_param_id(weight)]
    start = min(size * distributed.get_rank(), weight.ds_numel)
    return _Part(weight, start, flat_start, min(size, weight.ds_numel - start))  # the last part may have padding
