"""A user's own loss: what it gets, and the check of what it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from jprep.train.hooks.loading import Hook


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
    returned = hook(logits, labels, batch)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise hook.error(f"returned {_describe(returned)}: return (sum of the losses, number of labels)")
    total, count = returned
    if not isinstance(total, Tensor) or total.dim():
        what = f"returned {_describe(total)} as its loss: return a sum, a tensor without dimensions"
        raise hook.error(what, fix="end it with .sum(), and leave the division by the number of labels to jprep")
    if torch.is_grad_enabled() and logits.requires_grad and not total.requires_grad:
        raise hook.error("returned a loss that does not depend on the logits", fix="compute it from `logits`")
    if isinstance(count, Tensor) and count.dim():
        raise hook.error(f"returned {_describe(count)} as its count: return a number, e.g. len(labels)")
    with hook.errors():
        number = torch.as_tensor(count, dtype=torch.float32, device=total.device).detach()
    return total.float(), number


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
