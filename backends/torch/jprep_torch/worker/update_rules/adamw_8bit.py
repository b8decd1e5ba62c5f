"""AdamW whose averages have eight bits a number (Dettmers et al., 2022), as `docs/training.md` defines it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from jprep_torch.worker.distributed.sharded_tensors import local_part, sharded_part

BLOCK = 256
"""Numbers that share a scale: the largest absolute value among them."""

SMALLEST = 4096
"""Minimum numbers of a tensor, or of this process's part of it, for averages of eight bits."""

_TINY = 1e-30  # a block of smaller numbers is zero: their products with small values would lose bits
_EXPONENTS = 7  # orders of magnitude below a block's largest number


class Compressed(NamedTuple):
    """An average of a tensor, or of this process's part of it.

    Attributes:
        codes: indices into `values_of(signed)`, (blocks, `BLOCK`), uint8; the last block is filled up with zeros.
        scales: the largest absolute value of each block, (blocks, 1).
        signed: whether there are negative numbers.
        shape: shape of the tensor.
    """

    codes: Tensor
    scales: Tensor
    signed: bool
    shape: torch.Size

    def expand(self) -> Tensor:
        """Return the numbers, fp32. Compressed again, they have the same codes and scales."""
        values = values_of(self.signed, self.codes.device)
        numbers = (values[self.codes.int()] * self.scales).view(-1)
        return numbers[: math.prod(self.shape)].view(self.shape)


@lru_cache
def values_of(signed: bool, device: torch.device) -> Tensor:
    """Return the numbers that codes stand for, ascending, at most 256, from 0 or -1 to 1.

    Between two powers of ten they are evenly spaced: twice as many in each as in the one below it.
    """
    found = [0.0, 1.0]
    for exponent in range(int(signed), _EXPONENTS):
        count = 2 ** (exponent + (0 if signed else 1))
        edges = [0.1 + 0.9 * place / count for place in range(count + 1)]
        middles = [(low + high) / 2 for low, high in pairwise(edges)]
        found += [middle * 10.0 ** (exponent - _EXPONENTS + 1) for middle in middles]
    numbers = {*found, *(-number for number in found if signed)}
    return torch.tensor(sorted(numbers), device=device)


def compress(numbers: Tensor, *, signed: bool) -> Compressed:
    """Return numbers with eight bits each: the nearest of `values_of`, times the scale of their block."""
    flat = numbers.float().reshape(-1)
    blocks = nn.functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(1, keepdim=True)
    scales = torch.where(scales < _TINY, 0.0, scales)
    values = values_of(signed, flat.device)
    middles = (values[1:] + values[:-1]) / 2
    codes = torch.bucketize(blocks / torch.where(scales == 0, torch.inf, scales), middles).to(torch.uint8)
    return Compressed(codes, scales, signed, numbers.shape)


class AdamW8bit(torch.optim.Optimizer):
    """AdamW with ε after bias correction; averages of large tensors are compressed between steps.

    Sharded weights have blocks within each process's part, so another number of processes rounds otherwise.

    Args:
        groups: groups of weights.
        lr: learning rate.
        betas: decay rates of the averages.
        eps: added to the denominator.

    Attributes:
        grad_scale: number that gradients are divided by, (), or None.
        found_inf: 1 if a gradient is not finite, (), or None: weights and averages then stay as they are.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update the weights once."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group)

    def average(self, weight: nn.Parameter, key: str) -> Tensor:
        """Return an average in fp32: a whole tensor, or sharded as the weight is."""
        return sharded_part(_expanded(self.state[weight][key]), weight)

    def set_averages(self, weight: nn.Parameter, updates: int, averages: dict[str, Tensor]) -> None:
        """Set the averages of a weight, by their keys, as `average` returned them."""
        state: dict[str, Any] = {key: _kept(local_part(number), key) for key, number in averages.items()}
        self.state[weight] = {"step": torch.tensor(float(updates)), **state}

    def _update(self, weight: Any, group: dict[str, Any]) -> None:
        own, gradient = local_part(weight), local_part(weight.grad).float()
        state = self.state[weight]
        if not state:
            zeros = torch.zeros_like(own, dtype=torch.float32)
            state |= {"step": torch.tensor(0.0), **{key: _kept(zeros, key) for key in ("exp_avg", "exp_avg_sq")}}
        state["step"] += 1
        valid = True if self.found_inf is None else self.found_inf == 0
        gradient = gradient if self.grad_scale is None else gradient / self.grad_scale
        first, second = (_expanded(state[key]) for key in ("exp_avg", "exp_avg_sq"))
        beta1, beta2 = group["betas"]
        mean, square = first.lerp(gradient, 1 - beta1), second.lerp(gradient.square(), 1 - beta2)
        updates = float(state["step"])
        scale = math.sqrt(1 - beta2**updates)
        change = group["lr"] * (
            mean / (1 - beta1**updates) / (square.sqrt() / scale + group["eps"]) + group["weight_decay"] * own
        )
        if valid is not True:
            change = torch.where(valid, change, torch.zeros_like(change))
            mean, square = torch.where(valid, mean, first), torch.where(valid, square, second)
        own -= change
        state["exp_avg"], state["exp_avg_sq"] = _kept(mean, "exp_avg"), _kept(square, "exp_avg_sq")


def _kept(numbers: Tensor, key: str) -> Tensor | Compressed:
    return compress(numbers, signed=key == "exp_avg") if numbers.numel() >= SMALLEST else numbers


def _expanded(kept: Tensor | Compressed) -> Tensor:
    return kept.expand() if isinstance(kept, Compressed) else kept
