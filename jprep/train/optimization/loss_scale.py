"""The loss scale of fp16; see `docs/training.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jprep.train.job.config import Precision

INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL = 2.0**16, 2000
"""The loss scale of fp16 before the first step, and the number of good steps after which it is doubled."""


def initial_loss_scale(precision: Precision) -> float:
    """Return the loss scale before the first step; 1 except in fp16."""
    return INITIAL_LOSS_SCALE if precision == "fp16" else 1.0


def next_loss_scale(scale: Any, good: Any, taken: Any, where: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any]:
    """Halve the loss scale after a skipped step, and double it after enough steps that were taken.

    Args:
        scale: the loss scale of the step, an array.
        good: the number of steps that were taken since the scale last changed, an array.
        taken: whether the step was taken, an array.
        where: the framework's `where(condition, if_true, if_false)`.

    Returns:
        The loss scale and the number for the next step.
    """
    good = where(taken, good + 1, 0)
    grows = good >= LOSS_SCALE_GROWTH_INTERVAL
    scale = where(taken, where(grows, scale * 2, scale), scale / 2)
    return scale, where(grows, 0, good)
