"""Muon for the matrices of layers, beside AdamW for all other weights, as `docs/training.md` defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jprep.io.safetensors_file import Shape
from jprep.train.optimization.layer_decay import rate_factors
from jprep.train.optimization.muon import NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS, uses_muon
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_torch.models.expert_weights import parts_of
from jprep_torch.worker.distributed.sharded_tensors import gather_whole, shard_whole

MOMENTUM = "exp_avg"
"""The name of the momentum in the optimizer's state: that of AdamW's first average."""


class Muon(torch.optim.AdamW):
    """AdamW whose groups of matrices are updated by Muon.

    Args:
        weights: trained weights by name; sharded weights may have lost their shape.
        shapes: shapes of the whole weights.
        section: the job's optimizer section.

    Attributes:
        grad_scale: number that gradients are divided by, (), or None.
        found_inf: 1 if a gradient is not finite, (), or None: weights then stay as they are.
    """

    param_groups: list[dict[str, Any]]

    def __init__(
        self, weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig
    ) -> None:
        found: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
        factors = rate_factors(weights, section.layer_decay)
        for name, weight in weights.items():
            group = uses_muon(name, shapes[name]), section.decay_of(len(shapes[name])), factors[name]
            found.setdefault(group, []).append(weight)
        groups = [
            {"params": each, "muon": muon, "weight_decay": decay, "factor": factor}
            for (muon, decay, factor), each in found.items()
        ]
        super().__init__(groups, section.lr, (section.beta1, section.beta2), section.eps, fused=True)
        self._momentum = section.momentum
        self._parts = {weight: parts_of(name) for name, weight in weights.items()}
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update the weights once."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["muon"]]
        try:
            super().step(closure)
        finally:
            self.param_groups = groups
        for group in (group for group in groups if group["muon"]):
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])

    def _update(self, weight: nn.Parameter, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[weight]
        if MOMENTUM not in state:
            state[MOMENTUM] = torch.zeros_like(weight)
        momentum = state[MOMENTUM]
        gradient = gradient if self.grad_scale is None else gradient / self.grad_scale
        after = self._momentum * momentum + gradient
        change = rate * (self._direction(weight, gradient + self._momentum * after) + decay * weight)
        if self.found_inf is not None:
            valid = self.found_inf == 0
            after, change = torch.where(valid, after, momentum), torch.where(valid, change, torch.zeros_like(change))
        momentum.copy_(after)
        weight -= change

    def _direction(self, weight: nn.Parameter, update: Tensor) -> Tensor:
        """Return the direction in which a weight changes, sharded as the weight is.

        Args:
            weight: the weight.
            update: its gradient and momentum, sharded as the weight is.
        """
        return shard_whole(self._orthogonal_parts(weight, gather_whole(update)), weight)

    def _orthogonal_parts(self, weight: nn.Parameter, whole: Tensor) -> Tensor:
        """Return `orthogonal` of each matrix that is a part of a weight."""
        return torch.cat([orthogonal(part) for part in whole.chunk(self._parts.get(weight, 1), -2)], -2)


def orthogonal(matrix: Tensor) -> Tensor:
    """Return a matrix with about the same singular vectors and singular values near 1, times 0.2 · √(longer side).

    Args:
        matrix: (…, rows, columns).
    """
    rows, columns = matrix.shape[-2:]
    x = matrix.mT if rows > columns else matrix
    norm = x.norm(dim=-1, keepdim=True).norm(dim=-2, keepdim=True)  # by rows: more exact on CPUs than all at once
    x = x / norm.clamp_min(1e-30)
    first, second, third = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = x @ x.mT
        x = first * x + (second * square + third * square @ square) @ x
    x = x * (0.2 * max(rows, columns) ** 0.5)
    return x.mT if rows > columns else x
