"""Losses, summed: of tokens, of classes, of scores."""

from __future__ import annotations

from typing import Any

from keras import ops

NO_LABEL = -100


def token_loss(logits: Any, labels: Any, z_loss: float = 0.0) -> Any:
    """Return Σ (z ln² Z - ln p(label)), natural logarithms.

    Args:
        logits: fp32, (rows, tokens, ids).
        labels: int32, (rows, tokens), `NO_LABEL` where there is none.
        z_loss: the factor z.
    """
    known = labels != NO_LABEL
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
