"""A user's own loss: what it gets, and the check of what it returns."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from jprep.train.hooks.calls import ArrayType, check_count, loss_and_count
from jprep.train.hooks.loading import Hook

TENSORS = ArrayType("a tensor", lambda value: isinstance(value, Tensor), ".sum()", "len(labels)")


class LossBatch(NamedTuple):
    """The rows of a micro-batch, under transformers' names.

    Attributes:
        input_ids: int64, (rows, length).
        attention_mask: int64, (rows, length): 0 for padding.
        token_type_ids: int64, (rows, length); None if the model has none.
        label_mask: bool, of the labels' shape: False for labels that do not count, which are 0. XLA's programs, whose
            shapes are fixed, have such labels.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None
    label_mask: Tensor


def call_loss(hook: Hook, logits: Tensor, labels: Tensor, batch: LossBatch) -> tuple[Tensor, Tensor]:
    """Return the summed loss of a hook, and the number that the loss of the global batch is divided by; both fp32.

    Args:
        hook: the loss.
        logits: fp32, (labels, classes).
        labels: (labels,).
        batch: the micro-batch.

    Raises:
        ConfigError: the hook failed, or returned something else.
    """
    total, count = loss_and_count(hook, hook(logits, labels, batch), TENSORS)
    if torch.is_grad_enabled() and logits.requires_grad and not total.requires_grad:
        raise hook.error("returned a loss that does not depend on the logits", fix="compute it from `logits`")
    with hook.errors():
        number = torch.as_tensor(count, dtype=torch.float32, device=total.device).detach()
    check_count(hook, number, TENSORS)
    return total.float(), number
