"""The loss scale of fp16; see `docs/training.md`."""

from __future__ import annotations

from jprep.train.job.config import Precision

INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL = 2.0**16, 2000
"""The loss scale of fp16 before the first step, and the number of good steps after which it is doubled."""


def initial_loss_scale(precision: Precision) -> float:
    """Return the loss scale before the first step; 1 except in fp16."""
    return INITIAL_LOSS_SCALE if precision == "fp16" else 1.0
