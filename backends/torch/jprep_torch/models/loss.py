"""Summed losses of tokens (without all logits in memory at once), of classes and of scores."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep_torch.models.token_sampling import sample_tokens

LOGITS_PER_CHUNK = 1 << 23
"""Number of logits that are in memory at a time."""


class Noise(NamedTuple):
    """Random bits for sampling tokens: see `sample_tokens`.

    Attributes:
        keys: one word for each token, (tokens,).
        words: one word for each id, (ids,).
    """

    keys: Tensor
    words: Tensor


def token_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, padded: int = 0, z_loss: float = 0.0
) -> Tensor:
    """Return Σ (z · ln² Z − ln p(label)) of tokens, with the softmax in fp32; Z is its denominator.

    The gradient is computed in the forward pass, one chunk of tokens at a time.

    Args:
        hidden: (tokens, width).
        weight: (vocabulary, width).
        bias: (vocabulary,) or None.
        labels: (tokens,), each an id.
        padded: number of ids that the matrix product is padded to; padding takes no part in the softmax.
        z_loss: the factor z.

    Returns:
        The sum, in fp32.
    """
    loss, _ = token_loss_and_samples(hidden, weight, bias, labels, noise=None, padded=padded, z_loss=z_loss)
    return loss


def token_loss_and_samples(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    *,
    noise: Noise | None,
    padded: int = 0,
    z_loss: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return `token_loss`, and a token sampled from each softmax, (tokens,); none without noise."""
    needs_grad = torch.is_grad_enabled()
    found: tuple[Tensor, Tensor] = _TokenLoss.apply(hidden, weight, bias, labels, noise, needs_grad, padded, z_loss)
    return found


def token_loss_xla(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, padded: int = 0, z_loss: float = 0.0
) -> Tensor:
    """Return `token_loss` of all tokens but those with the label `IGNORE_INDEX`, with all logits in memory.

    XLA compiles a program for each number of tokens, so that tokens without a label are not left out before.
    """
    loss, _ = token_loss_and_samples_xla(hidden, weight, bias, labels, noise=None, padded=padded, z_loss=z_loss)
    return loss


def token_loss_and_samples_xla(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    *,
    noise: Noise | None,
    padded: int = 0,
    z_loss: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return `token_loss_xla`, and a token sampled for each, (tokens,); none without noise."""
    logits = functional.linear(hidden, *_padded(weight, bias, padded)).float()
    loss = functional.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX, reduction="sum")
    if z_loss:
        loss = loss + z_loss * (logits.logsumexp(1).square() * (labels != IGNORE_INDEX)).sum()
    if noise is None:
        return loss, labels.new_empty(0)
    return loss, sample_tokens(logits.detach()[:, : len(weight)], *noise)


def _padded(table: Tensor, bias: Tensor | None, ids: int) -> tuple[Tensor, Tensor | None]:
    """Return an output table and its bias with rows up to a number of ids; the logits of new ones are -∞."""
    missing = ids - len(table)
    if missing <= 0:
        return table, bias
    bias = table.new_zeros(len(table)) if bias is None else bias
    return functional.pad(table, (0, 0, 0, missing)), functional.pad(bias, (0, missing), value=-math.inf)


def replaced_loss(outputs: Tensor, replaced: Tensor) -> Tensor:
    """Return the binary cross-entropy of each token: - ln σ(output) if it was replaced, - ln (1 - σ(output)) if not.

    Args:
        outputs: any shape.
        replaced: 1 or 0, of the same shape.
    """
    return functional.binary_cross_entropy_with_logits(outputs.float(), replaced.float(), reduction="none")


def class_loss(outputs: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return - Σ w(class) · ln p(class).

    Args:
        outputs: logits, (rows, classes).
        labels: (rows,).
        weights: the weight of each class, (classes,); None for 1 each.
    """
    return functional.cross_entropy(outputs.float(), labels, weights, reduction="sum")


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
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        noise: Noise | None,
        needs_grad: bool,
        padded: int,
        z_loss: float,
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.get_autocast_dtype(hidden.device.type) if _autocasting(hidden) else weight.dtype
        inputs, ids = hidden.to(dtype), len(weight)
        table, row = _padded(weight.to(dtype), None if bias is None else bias.to(dtype), padded)
        total = hidden.new_zeros((), dtype=torch.float32)
        samples = torch.empty_like(labels if noise else labels[:0])
        d_hidden = torch.empty_like(hidden) if needs_grad else None
        # Chunks are summed in fp32, whatever the dtype of the weights.
        d_weight = torch.zeros_like(table, dtype=torch.float32) if needs_grad else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if needs_grad and bias is not None else None
        tokens = max(1, LOGITS_PER_CHUNK // len(table))
        for start in range(0, len(labels), tokens):
            chunk, own = inputs[start : start + tokens], labels[start : start + tokens].unsqueeze(1)
            logits = chunk @ table.t() if row is None else torch.addmm(row, chunk, table.t())
            if noise:
                samples[start : start + tokens] = sample_tokens(
                    logits[:, :ids].float(), noise.keys[start : start + tokens], noise.words
                )
            p = torch.log_softmax(logits.float(), 1)  # twice as fast as logsumexp, for a second table of the chunk
            chosen = p.gather(1, own)
            total -= chosen.sum()
            normalizers = logits.gather(1, own).float() - chosen  # ln Z
            total += z_loss * normalizers.square().sum()
            if d_hidden is None or d_weight is None:
                continue
            p.exp_()
            if z_loss:
                p *= 1 + 2 * z_loss * normalizers
            p[torch.arange(len(p), device=p.device), own.squeeze(1)] -= 1  # without z: p, and p − 1 at the label
            if d_bias is not None:
                d_bias += p[:, :ids].sum(0)
            p = p.to(dtype)
            d_hidden[start : start + tokens] = p @ table
            _add_product(d_weight, p, chunk)
        ctx.save_for_backward(d_hidden, None if d_weight is None else d_weight[:ids], d_bias)
        ctx.mark_non_differentiable(samples)
        return total, samples

    @staticmethod
    def backward(ctx: Any, factor: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_hidden, d_weight, d_bias = (None if grad is None else grad.mul_(factor) for grad in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None, None, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add leftᵀ · right to `total` in its dtype."""
    if left.dtype == total.dtype:
        total.addmm_(left.t(), right)
    else:
        total += left.t() @ right


def _autocasting(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
