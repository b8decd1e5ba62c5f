"""Losses, summed: of tokens, without a table of all of them by all ids; of classes; of scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

LOGITS_PER_CHUNK = 1 << 23
"""Numbers of the table of logits that are there at a time."""


def token_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
    """- Σ ln p(label), natural logarithm, softmax in fp32.

    Args:
        hidden: (tokens, width).
        weight: (ids, width).
        bias: (ids,), if there is one.
        labels: (tokens,), each an id.

    Returns:
        The sum, in fp32. Its gradient is worked out on the way forward, a chunk of tokens at a time.
    """
    loss: Tensor = _TokenLoss.apply(hidden, weight, bias, labels, torch.is_grad_enabled())
    return loss


def token_loss_xla(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, no_label: int) -> Tensor:
    """As `token_loss`, of all tokens: those without a label count for nothing, and the table is there at once.

    XLA compiles for each number of tokens anew, so all of them go through the head.
    """
    logits = functional.linear(hidden, weight, bias).float()
    return functional.cross_entropy(logits, labels, ignore_index=no_label, reduction="sum")


def class_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """- Σ ln p(class) of outputs (rows, classes) and labels (rows,)."""
    return functional.cross_entropy(outputs.float(), labels, reduction="sum")


def score_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Σ (output − score)² of outputs (rows, 1) and scores (rows,)."""
    return functional.mse_loss(outputs.float().squeeze(-1), labels, reduction="sum")


class _TokenLoss(torch.autograd.Function):
    """The loss is the last thing that is computed, so its gradient is known but for a factor as soon as the loss is."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, wanted: bool) -> Tensor:
        half = torch.get_autocast_dtype(hidden.device.type) if _autocasting(hidden) else weight.dtype
        inputs, table = hidden.to(half), weight.to(half)
        total = hidden.new_zeros((), dtype=torch.float32)
        d_hidden = torch.empty_like(hidden) if wanted else None
        whole = torch.float32  # chunks are summed in it, whatever the weights are kept in
        d_weight = torch.zeros_like(weight, dtype=whole) if wanted else None
        d_bias = torch.zeros_like(bias, dtype=whole) if wanted and bias is not None else None
        rows = max(1, LOGITS_PER_CHUNK // len(weight))
        for start in range(0, len(labels), rows):
            part, ids = inputs[start : start + rows], labels[start : start + rows].unsqueeze(1)
            logits = part @ table.t() if bias is None else torch.addmm(bias.to(half), part, table.t())
            p = torch.log_softmax(logits.float(), 1)  # twice as fast as logsumexp, for a second table of the chunk
            total -= p.gather(1, ids).sum()
            if d_hidden is None or d_weight is None:
                continue
            p.exp_()
            p[torch.arange(len(p), device=p.device), ids.squeeze(1)] -= 1  # the gradient: p, and p − 1 at the label
            if d_bias is not None:
                d_bias += p.sum(0)
            p = p.to(half)
            d_hidden[start : start + rows] = p @ table
            _add_product(d_weight, p, part)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return total

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_hidden, d_weight, d_bias = (None if grad is None else grad.mul_(factor) for grad in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += leftᵀ · right, the sum in total's own type."""
    if left.dtype == total.dtype:
        total.addmm_(left.t(), right)
    else:
        total += left.t() @ right


def _autocasting(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
