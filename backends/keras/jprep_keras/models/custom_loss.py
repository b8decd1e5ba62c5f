"""A user's own loss: what it gets, and the check of what it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from jprep.train.hooks.calls import ArrayType, check_count, loss_and_count
from jprep.train.hooks.loading import Hook

TENSORS = ArrayType("a tensor", ops.is_tensor, "ops.sum", "ops.sum(batch.label_mask)")


class LossBatch(NamedTuple):
    """The rows of a micro-batch, under transformers' names.

    Attributes:
        input_ids: int32, (rows, length).
        attention_mask: int32, (rows, length): 0 for padding.
        token_type_ids: int32, (rows, length); None if the model has none.
        label_mask: bool, of the labels' shape: False for labels that do not count, which are 0: shapes are fixed, so
            tokens without a label and rows that fill the last batch are there.
    """

    input_ids: Any
    attention_mask: Any
    token_type_ids: Any
    label_mask: Any


def call_loss(hook: Hook, logits: Any, labels: Any, batch: LossBatch) -> tuple[Any, Any]:
    """Return the summed loss of a hook, and the number that the loss of the global batch is divided by; both fp32.

    Args:
        hook: the loss, called while a program is traced.
        logits: fp32, (…, classes).
        labels: (…).
        batch: the micro-batch.

    Raises:
        ConfigError: the hook failed, or returned something else.
    """
    total, count = loss_and_count(hook, hook(logits, labels, batch), TENSORS)
    with hook.errors():
        number = ops.stop_gradient(ops.convert_to_tensor(count, "float32"))
    check_count(hook, number, TENSORS)
    return ops.cast(total, "float32"), number
