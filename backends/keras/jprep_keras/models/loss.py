"""Losses, summed: of tokens, of classes, of scores."""

from __future__ import annotations

from typing import Any

from keras import ops

from jprep.dataset.sampling.masking import IGNORE_INDEX


def token_loss(logits: Any, labels: Any, z_loss: float = 0.0) -> Any:
    """Return Σ (z ln² Z - ln p(label)), natural logarithms.

    Args:
        logits: fp32, (rows, tokens, ids).
        labels: int32, (rows, tokens), `IGNORE_INDEX` where there is none.
        z_loss: the factor z.
    """
    known = labels != IGNORE_INDEX
    chosen = ops.take_along_axis(logits, ops.where(known, labels, 0)[..., None], axis=-1)[..., 0]
    normalizer = ops.logsumexp(logits, axis=-1)
    losses = normalizer - chosen + (z_loss * ops.square(normalizer) if z_loss else 0.0)
    return ops.sum(ops.where(known, losses, 0.0))


def class_loss(outputs: Any, labels: Any, weight: Any) -> Any:
    """Return - Σ ln p(class) for outputs (rows, classes) and labels (rows,), each row times its weight."""
    chosen = ops.take_along_axis(ops.log_softmax(outputs), labels[:, None], axis=1)[:, 0]
    return -ops.sum(chosen * weight)


def score_loss(outputs: Any, labels: Any, weight: Any) -> Any:
    """Return Σ (output − score)² for outputs (rows, 1) and scores (rows,), each row times its weight."""
    return ops.sum(ops.square(outputs[:, 0] - labels) * weight)
