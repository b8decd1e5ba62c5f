"""From gradients to new weights: AdamW, clipping and the loss's scale as `docs/training.md` has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from jprep.io.safetensors_file import Shape
from jprep.train.job.config import OptimizerConfig
from jprep.train.run.checkpoint_files import TrainProgress
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.xla_adamw import XlaAdamW

ToDevice = Callable[[float], float | Tensor]

INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL = 2.0**16, 2000


def adamw(
    weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig, kind: str = "cpu"
) -> torch.optim.Optimizer:
    """AdamW: ε after the correction, decay on what has two or more dimensions, in one kernel.

    Args:
        weights: the trained ones, by name; divided ones may have lost their shape.
        shapes: of the whole.
        section: the job's.
        kind: of the device.
    """
    decayed = [weight for name, weight in weights.items() if len(shapes[name]) >= 2]
    others = [weight for name, weight in weights.items() if len(shapes[name]) < 2]
    groups = [
        {"params": decayed, "weight_decay": section.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = (section.beta1, section.beta2)
    if kind in XLA_DEVICES:
        return XlaAdamW([g for g in groups if g["params"]], section.lr, betas, section.eps)
    return torch.optim.AdamW([g for g in groups if g["params"]], section.lr, betas, section.eps, fused=True)


def global_norm(weights: Iterable[nn.Parameter]) -> float:
    """√Σ g² over all gradients, on whichever ranks their parts are."""
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return float(whole)


def unscale_and_clip(
    weights: Iterable[nn.Parameter], norm: float, clip: float, scale: float, number: ToDevice = lambda value: value
) -> float:
    """Divide gradients by the loss's scale, then clip them: g · c / N, nothing added to N.

    Args:
        weights: whose gradients.
        norm: of the gradients as they are.
        clip: the largest norm that may stay; 0 for any.
        scale: of the loss; a power of two.
        number: makes a number of the device's of what changes from step to step, where it needs that.

    Returns:
        The norm before clipping, without the scale.
    """
    true = norm / scale
    factor = (clip / true if clip and true > clip else 1.0) / scale
    there = number(factor)
    if isinstance(there, Tensor) or there != 1.0:  # a number on XLA's device is always multiplied by: one program
        for weight in weights:
            if weight.grad is not None:
                weight.grad.mul_(there)
    return true


class LossScale:
    """The factor that keeps fp16's small gradients from vanishing; 1 in other precisions.

    Args:
        precision: the job's.

    Attributes:
        factor: it.
        good: steps since it changed.
    """

    def __init__(self, precision: str) -> None:
        self.factor = INITIAL_LOSS_SCALE if precision == "fp16" else 1.0
        self._moving, self.good = precision == "fp16", 0

    def passes(self, norm: float) -> bool:
        """Whether the gradient stands: it is finite, or no scale is to blame. A scale that was too large is halved."""
        if self._moving and self.factor > 1.0 and not math.isfinite(norm):
            self.factor, self.good = self.factor / 2, 0
            return False
        self.good += 1
        return True

    def after_update(self) -> None:
        """Grow, where enough steps were good."""
        if self._moving and self.good >= LOSS_SCALE_GROWTH_INTERVAL:
            self.factor, self.good = self.factor * 2, 0

    def restore(self, progress: TrainProgress) -> None:
        """Go on from what was saved."""
        self.factor, self.good = progress.scale, progress.good
