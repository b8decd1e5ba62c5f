"""AdamW, gradient clipping and the loss scale as `docs/training.md` defines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jprep.io.safetensors_file import Shape
from jprep.train.job.config import Precision
from jprep.train.optimization.layer_decay import rate_factors
from jprep.train.optimization.loss_scale import LOSS_SCALE_GROWTH_INTERVAL, initial_loss_scale
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep.train.run.checkpoint_files import TrainProgress, average_shapes
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.update_rules.adamw_8bit import AdamW8bit
from jprep_torch.worker.update_rules.muon import Muon
from jprep_torch.worker.update_rules.norms import total_norm
from jprep_torch.worker.update_rules.xla_adamw import XlaAdamW

FACTOR = "factor"
"""The key of a group of weights with the factor of its learning rate."""

ToDevice = Callable[[float], float | Tensor]
"""Returns a number that changes from step to step in the form that the device needs."""


def make_optimizer(
    weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig, kind: str = "cpu"
) -> torch.optim.Optimizer:
    """Return AdamW with ε added after bias correction, and the weight decay of the job; or the optimizer that it names.

    Args:
        weights: trained weights by name; sharded weights may have lost their shape.
        shapes: shapes of the whole weights.
        section: the job's optimizer section.
        kind: kind of the device.
    """
    if section.kind == "muon":
        return Muon(weights, shapes, section)
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    factors = rate_factors(weights, section.layer_decay)
    for name, weight in weights.items():
        found.setdefault((section.decay_of(len(shapes[name])), factors[name]), []).append(weight)
    groups = [{"params": each, "weight_decay": decay, FACTOR: factor} for (decay, factor), each in found.items()]
    betas = (section.beta1, section.beta2)
    if section.kind == "adamw-8bit":
        return AdamW8bit(groups, section.lr, betas, section.eps)
    if kind in XLA_DEVICES:
        return XlaAdamW(groups, section.lr, betas, section.eps)
    return torch.optim.AdamW(groups, section.lr, betas, section.eps, fused=True)


def shapes_of_averages(
    optimizer: torch.optim.Optimizer, shapes: Mapping[str, Shape], trained: Iterable[str]
) -> dict[str, Shape]:
    """Return the names and shapes of the averages that a checkpoint has of some weights.

    Args:
        optimizer: their optimizer, which `make_optimizer` has made.
        shapes: shapes of all whole weights.
        trained: names of the weights.
    """
    return average_shapes(shapes, trained, "muon" if isinstance(optimizer, Muon) else "adamw")


def set_rate(optimizer: Any, rate: float) -> None:
    """Set the learning rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group[FACTOR]


def global_norm(weights: Iterable[nn.Parameter]) -> Tensor:
    """Return √Σ g² over all gradients, of all ranks if they are sharded, on the device."""
    return total_norm([weight.grad for weight in weights if weight.grad is not None])


def clip(
    weights: Iterable[nn.Parameter], norm: Tensor, limit: float, optimizer: torch.optim.Optimizer, *, sharded: bool
) -> None:
    """Clip gradients, g · c / N, without reading the norm from the device.

    The fused AdamW divides by N / c itself, and leaves weights as they are if N is not finite.

    Args:
        weights: the weights whose gradients are clipped.
        norm: the norm of the gradients.
        limit: the largest norm; 0 for no limit.
        optimizer: their optimizer.
        sharded: whether weights are sharded, which the fused AdamW cannot divide.
    """
    share = (norm / limit).clamp_min(1.0) if limit else torch.ones_like(norm)
    if sharded:
        rescale_gradients(weights, 1 / share)
    else:
        fused: Any = optimizer
        fused.grad_scale, fused.found_inf = share, (~torch.isfinite(norm)).float()


def unscale_and_clip(
    weights: Iterable[nn.Parameter], norm: float, clip: float, scale: float, number: ToDevice = lambda value: value
) -> float:
    """Divide gradients by the loss scale, then clip them: g · c / N, with nothing added to N.

    Args:
        weights: the weights whose gradients are changed.
        norm: norm of the gradients as they are.
        clip: the largest norm; 0 for no limit.
        scale: the loss scale, a power of two.
        number: converts the factor to what the device needs.

    Returns:
        The norm before clipping, without the loss scale.
    """
    unscaled = norm / scale
    factor = number((clip / unscaled if clip and unscaled > clip else 1.0) / scale)
    if isinstance(factor, Tensor) or factor != 1.0:  # XLA always multiplies, so that there is one program
        rescale_gradients(weights, factor)
    return unscaled


def rescale_gradients(weights: Iterable[nn.Parameter], factor: float | Tensor) -> None:
    """Multiply gradients by a number. A factor of 1 changes no bit of them."""
    for weight in weights:
        if weight.grad is not None:
            weight.grad.mul_(factor)


class LossScale:
    """The factor that keeps small gradients of fp16 from becoming zero; 1 in other precisions.

    Args:
        precision: the job's precision.

    Attributes:
        factor: the factor.
        good_steps: steps since it changed.
    """

    def __init__(self, precision: Precision) -> None:
        self.factor = initial_loss_scale(precision)
        self._dynamic, self.good_steps = precision == "fp16", 0

    def accepts(self, norm: float) -> bool:
        """Return whether the gradient can be used; halve the scale if it overflowed.

        A gradient that is not finite at a scale of 1, or in another precision, is not a matter of the scale: it is
        accepted, and the caller's check ends the run.
        """
        if self._dynamic and self.factor > 1.0 and not math.isfinite(norm):
            self.factor, self.good_steps = self.factor / 2, 0
            return False
        self.good_steps += 1
        return True

    def grow(self) -> None:
        """Double the scale after enough steps without overflow. Call it after each update."""
        if self._dynamic and self.good_steps >= LOSS_SCALE_GROWTH_INTERVAL:
            self.factor, self.good_steps = self.factor * 2, 0

    def restore(self, progress: TrainProgress) -> None:
        """Set the state of a checkpoint."""
        self.factor, self.good_steps = progress.scale, progress.good
