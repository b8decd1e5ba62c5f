"""AdamW, gradient clipping and the loss scale as `docs/training.md` defines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jprep.io.safetensors_file import Shape
from jprep.train.job.config import OptimizerConfig, Precision
from jprep.train.job.schedule import LOSS_SCALE_GROWTH_INTERVAL, initial_loss_scale
from jprep.train.run.checkpoint_files import TrainProgress
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.xla_adamw import XlaAdamW

ToDevice = Callable[[float], float | Tensor]
"""Returns a number that changes from step to step in the form that the device needs."""


def adamw(
    weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig, kind: str = "cpu"
) -> torch.optim.Optimizer:
    """Return AdamW with ε added after bias correction, and the weight decay of the job.

    Args:
        weights: trained weights by name; sharded weights may have lost their shape.
        shapes: shapes of the whole weights.
        section: the job's optimizer section.
        kind: kind of the device.
    """

    def group(*, matrices: bool) -> dict[str, Any]:
        chosen = [weight for name, weight in weights.items() if (len(shapes[name]) >= 2) == matrices]
        return {"params": chosen, "weight_decay": section.decay_of(2 if matrices else 1)}

    groups = [each for each in (group(matrices=True), group(matrices=False)) if each["params"]]
    betas = (section.beta1, section.beta2)
    if kind in XLA_DEVICES:
        return XlaAdamW(groups, section.lr, betas, section.eps)
    return torch.optim.AdamW(groups, section.lr, betas, section.eps, fused=True)


def global_norm(weights: Iterable[nn.Parameter]) -> float:
    """Return √Σ g² over all gradients, of all ranks if they are sharded."""
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return float(whole)


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
