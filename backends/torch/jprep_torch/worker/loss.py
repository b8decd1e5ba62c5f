"""Summed losses of tokens (without all logits in memory at once), of classes and of scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

LOGITS_PER_CHUNK = 1 << 23
"""Number of logits that are in memory at a time."""


def token_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
    """Return - Σ ln p(label) of tokens, with the softmax in fp32.

    The gradient is computed in the forward pass, one chunk of tokens at a time.

    Args:
        hidden: (tokens, width).
        weight: (vocabulary, width).
        bias: (vocabulary,) or None.
        labels: (tokens,), each an id.

    Returns:
        The sum, in fp32.
    """
    loss: Tensor = _TokenLoss.apply(hidden, weight, bias, labels, torch.is_grad_enabled())
    return loss


def token_loss_xla(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, ignored: int) -> Tensor:
    """Return `token_loss` of all tokens but those with the label `ignored`, with all logits in memory.

    XLA compiles a program for each number of tokens, so that tokens without a label are not left out before.
    """
    logits = functional.linear(hidden, weight, bias).float()
    return functional.cross_entropy(logits, labels, ignore_index=ignored, reduction="sum")


def class_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return - Σ ln p(class).

    Args:
        outputs: logits, (rows, classes).
        labels: (rows,).
    """
    return functional.cross_entropy(outputs.float(), labels, reduction="sum")


def score_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return Σ (output − score)².

    Args:
        outputs: (rows, 1).
        labels: scores, (rows,).
    """
    return functional.mse_loss(outputs.float().squeeze(-1), labels, reduction="sum")


class _TokenLoss(torch.autograd.Function):
    """The loss is the last operation, so its gradient is known in the forward pass except for a factor."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, needs_grad: bool
    ) -> Tensor:
        dtype = torch.get_autocast_dtype(hidden.device.type) if _autocasting(hidden) else weight.dtype
        inputs, table = hidden.to(dtype), weight.to(dtype)
        total = hidden.new_zeros((), dtype=torch.float32)
        d_hidden = torch.empty_like(hidden) if needs_grad else None
        # Chunks are summed in fp32, whatever the dtype of the weights.
        d_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_grad else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if needs_grad and bias is not None else None
        tokens = max(1, LOGITS_PER_CHUNK // len(weight))
        for start in range(0, len(labels), tokens):
            chunk, ids = inputs[start : start + tokens], labels[start : start + tokens].unsqueeze(1)
            logits = chunk @ table.t() if bias is None else torch.addmm(bias.to(dtype), chunk, table.t())
            p = torch.log_softmax(logits.float(), 1)  # twice as fast as logsumexp, for a second table of the chunk
            total -= p.gather(1, ids).sum()
            if d_hidden is None or d_weight is None:
                continue
            p.exp_()
            p[torch.arange(len(p), device=p.device), ids.squeeze(1)] -= 1  # the gradient: p, and p − 1 at the label
            if d_bias is not None:
                d_bias += p.sum(0)
            p = p.to(dtype)
            d_hidden[start : start + tokens] = p @ table
            _add_product(d_weight, p, chunk)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return total

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_hidden, d_weight, d_bias = (None if grad is None else grad.mul_(factor) for grad in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add leftᵀ · right to `total` in its dtype."""
    if left.dtype == total.dtype:
        total.addmm_(left.t(), right)
    else:
        total += left.t() @ right


def _autocasting(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
