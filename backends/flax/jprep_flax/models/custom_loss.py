"""A user's own loss: what it gets, and the check of what it returns."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jprep.train.hooks.calls import ArrayType, check_count, loss_and_count
from jprep.train.hooks.loading import Hook

ARRAYS = ArrayType("an array", lambda value: isinstance(value, jax.Array), ".sum()", "batch.label_mask.sum()")


class LossBatch(NamedTuple):
    """The rows of a micro-batch, under transformers' names.

    Attributes:
        input_ids: int32, (rows, length).
        attention_mask: int32, (rows, length): 0 for padding.
        token_type_ids: int32, (rows, length); None if the model has none.
        label_mask: bool, of the labels' shape: False for labels that do not count, which are 0: shapes are fixed, so
            tokens without a label and rows that fill the last batch are there.
    """

    input_ids: Array
    attention_mask: Array
    token_type_ids: Array | None
    label_mask: Array


def call_loss(hook: Hook, logits: Array, labels: Array, batch: LossBatch) -> tuple[Array, Array]:
    """Return the summed loss of a hook, and the number that the loss of the global batch is divided by; both fp32.

    Args:
        hook: the loss, called while a program is traced.
        logits: fp32, (…, classes).
        labels: (…).
        batch: the micro-batch.

    Raises:
        ConfigError: the hook failed, or returned something else.
    """
    total, count = loss_and_count(hook, hook(logits, labels, batch), ARRAYS)
    with hook.errors():
        number = lax.stop_gradient(jnp.asarray(count, jnp.float32))
    check_count(hook, number, ARRAYS)
    return total.astype(jnp.float32), number
