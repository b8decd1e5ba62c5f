"""Muon of weights that DeepSpeed has joined to flat tensors, of which each process updates a range (stages 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from deepspeed.accelerator import get_accelerator
from torch import Tensor, distributed, nn

from jprep.io.safetensors_file import Shape
from jprep.train.optimization.muon import uses_muon
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_deepspeed.worker.sharded_state import OwnRange, range_in_stage_3
from jprep_torch.worker.update_rules.muon import MOMENTUM, Muon


class _Matrix(NamedTuple):
    """A matrix that is a weight or one of those stacked in it, and the numbers of it that this process updates.

    Attributes:
        weight: the weight, which may have lost its shape.
        shape: (rows, columns) of the matrix.
        own: the numbers in the matrix and in the flat tensor.
    """

    weight: nn.Parameter
    shape: Shape
    own: OwnRange

    @property
    def is_whole(self) -> bool:
        """Whether this process updates all of it."""
        return self.own.size == math.prod(self.shape)


class ShardedMuon(Muon):
    """Muon whose matrices may be cut at the ends of the processes' ranges.

    A process updates the matrices of its range by itself; those that are cut are gathered, one at a time, by all.

    Args:
        weights: trained weights by name; sharded weights may have lost their shape.
        shapes: shapes of the whole weights.
        section: the job's optimizer section.
    """

    def __init__(
        self, weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig
    ) -> None:
        super().__init__(weights, shapes, section)
        self._shapes = {weight: shapes[name] for name, weight in weights.items() if uses_muon(name, shapes[name])}
        self._cut: dict[Tensor, list[_Matrix]] = {}
        self._whole: dict[Tensor, list[_Matrix]] = {}

    def find_matrices(self, zero: Any) -> None:
        """Find the matrices in the flat tensors of DeepSpeed's optimizer. Each process calls it before the first step.

        Args:
            zero: DeepSpeed's optimizer.
        """
        for flat, weights in _groups(zero):
            found = [one for weight in weights for one in self._matrices(zero, weight)]
            owners = torch.tensor([float(one.is_whole) for one in found], device=_device())
            if found:
                distributed.all_reduce(owners)
            self._cut[flat] = [one for one, owner in zip(found, owners.tolist(), strict=True) if not owner]
            self._whole[flat] = [one for one in found if one.is_whole]

    def _matrices(self, zero: Any, weight: nn.Parameter) -> Iterator[_Matrix]:
        """Yield the matrices of a weight that Muon updates."""
        shape = self._shapes.get(weight)
        if shape is None:
            return
        own, size = _own_range(zero, weight), math.prod(shape[-2:])
        for begin in range(0, math.prod(shape), size):
            start, end = max(own.start, begin), min(own.start + own.size, begin + size)
            flat_start = own.flat_start + start - own.start
            inside = OwnRange(start - begin, flat_start, end - start) if start < end else OwnRange(0, 0, 0)
            yield _Matrix(weight, shape[-2:], inside)

    def _update(self, weight: nn.Parameter, gradient: Tensor, rate: float, decay: float) -> None:
        momentum = self.state[weight][MOMENTUM]  # which every training restores, or sets to 0
        momentum.mul_(self._momentum).add_(gradient)
        for matrix in (*self._cut[weight], *self._whole[weight]):  # the cut ones in the same order on all processes
            flat = matrix.own.in_flat
            update = self._with_others(matrix, gradient[flat] + self._momentum * momentum[flat])
            if matrix.own.size:
                direction = self._orthogonal_parts(matrix.weight, update).flatten()[matrix.own.in_weight]
                weight[flat] -= rate * (direction.to(weight.device) + decay * weight[flat])

    def _with_others(self, matrix: _Matrix, own: Tensor) -> Tensor:
        """Return the whole update of a matrix, on the device: a sum to which the other processes add their numbers."""
        if matrix.is_whole:
            return own.view(matrix.shape).to(_device())
        whole = torch.zeros(matrix.shape, device=_device())
        whole.view(-1)[matrix.own.in_weight] = own.to(whole.device)
        distributed.all_reduce(whole)
        return whole


def _device() -> str:
    name: str = get_accelerator().current_device_name()
    return name


def _groups(zero: Any) -> Iterator[tuple[Tensor, list[nn.Parameter]]]:
    """Yield this process's flat tensors, and the weights that each has numbers of in some process."""
    for flats, groups in (
        ("fp32_partitioned_groups_flat", "fp16_groups"),  # stage 3
        ("single_partition_of_fp32_groups", "bit16_groups"),  # stages 1 and 2
        ("fp32_groups_flat_partition", "bf16_groups"),  # stage 1 in bf16
    ):
        yield from zip(getattr(zero, flats, ()), getattr(zero, groups, ()), strict=True)


def _own_range(zero: Any, weight: Any) -> OwnRange:
    """Return the numbers of a weight that this process updates."""
    if hasattr(weight, "ds_numel"):
        return range_in_stage_3(zero, weight)
    found = weight._hp_mapping
    if found is None:
        return OwnRange(0, 0, 0)
    return OwnRange(found.lp_fragment_address.start, found.hp_fragment_address.start, found.hp_fragment_address.numel)
