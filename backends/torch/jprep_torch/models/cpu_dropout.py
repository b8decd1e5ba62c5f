"""Dropout on CPUs with masks from numpy's SFC64.

PyTorch draws one number at a time on a CPU, which took up to half of a training step. Each mask is seeded by one number
of PyTorch's generator, so that seeding before a step and gradient checkpointing reproduce it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

_LEVELS = 1 << 16
"""The values of 16 random bits, which decide whether a number is kept."""

_OF_OTHER_KERNELS = ("position_bias", "softcap", "cache")
"""Options of transformers' attention that are left to it."""

torch.library.define("jprep::keep_mask", "(Tensor x, int levels) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl("jprep::keep_mask", "CompositeExplicitAutograd")
def _keep_mask(x: Tensor, levels: int) -> Tensor:
    """Return which numbers are kept: bool, of the shape of x. torch.compile does not trace into it."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
    bits = torch.from_numpy(words.view(np.int16)[: x.numel()]).view(x.shape)
    return bits <= levels - 1 - _LEVELS // 2


@torch.library.register_fake("jprep::keep_mask")
def _(x: Tensor, levels: int) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.bool)


def keep(x: Tensor, rate: float) -> tuple[Tensor, float]:
    """Set a share of the numbers to 0.

    Args:
        x: the numbers, on a CPU.
        rate: the share, from 0 to below 1, which is rounded to 16 bits.

    Returns:
        What is left, of the shape of x, and the factor by which dropout scales it.
    """
    levels = max(1, round((1 - rate) * _LEVELS))
    return torch.where(torch.ops.jprep.keep_mask(x.detach(), levels), x, 0), _LEVELS / levels


class Dropout(nn.Dropout):
    """PyTorch's dropout, faster on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the numbers after dropout in training, and as they are otherwise."""
        if not self.training or self.p in (0, 1) or input.device.type != "cpu":
            return super().forward(input)
        left, factor = keep(input, self.p)
        return left * factor


def use_fast_dropout(model: nn.Module) -> None:
    """Replace a model's modules of dropout and, in the whole process, transformers' attention `sdpa`.

    transformers 4 calls PyTorch's attention itself in BERT, RoBERTa and ModernBERT, where it stays as slow as it was.
    """
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))
    transformers.AttentionInterface.register("sdpa", attention_with_dropout)


def attention_with_dropout(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Return scaled dot-product attention as a model of transformers asks for it.

    In fp32 on a CPU, for which PyTorch has no fused kernel with dropout, it takes steps of its own; everything else is
    left to transformers.

    Args:
        module: the layer.
        query: (rows, heads, length, size).
        key, value: (rows, key-value heads, positions, size).
        attention_mask: true where a token attends to a position, or numbers to add; (rows, 1 or heads, length,
            positions) or None.
        **options: transformers' own.

    Returns:
        (rows, length, heads, size), and None.
    """
    rate, fast = options.get("dropout", 0.0), query.device.type == "cpu" and query.dtype == torch.float32
    if not rate or not fast or any(options.get(name) is not None for name in _OF_OTHER_KERNELS):
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    groups, scaling = getattr(module, "num_key_value_groups", 1), options.get("scaling")
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = query * (query.shape[-1] ** -0.5 if scaling is None else scaling) @ key.transpose(-2, -1)
    causal = options.get("is_causal")
    if attention_mask is None and (getattr(module, "is_causal", True) if causal is None else causal):
        attention_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attention_mask is not None:
        scores = scores + _additive(attention_mask[..., : key.shape[-2]])
    probabilities, factor = keep(torch.softmax(scores, -1), rate)
    return (probabilities @ (value * factor)).transpose(1, 2).contiguous(), None  # fewer numbers than probabilities


def _additive(mask: Tensor) -> Tensor:
    """Return a mask to be added to scores: lowest where a token does not attend to a position."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
