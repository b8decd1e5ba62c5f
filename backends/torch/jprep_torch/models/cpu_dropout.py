"""Dropout on CPUs with numpy's random bits: PyTorch's own took up to twenty times as long, and half of a step.

The masks depend on PyTorch's generator alone, of which each takes one number: it is seeded at each step, and restored
before a layer is computed once more by gradient checkpointing.
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


@torch.library.custom_op("jprep::kept", mutates_args=(), tags=torch.Tag.nondeterministic_seeded)
def _kept(x: Tensor, rate: float) -> Tensor:
    """Return which numbers are kept: bool, of the shape of x. Compiled programs call it as it is."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
    bits = torch.from_numpy(words.view(np.int16)[: x.numel()]).view(x.shape)
    kept = max(1, round((1 - rate) * _LEVELS))
    return bits <= kept - 1 - _LEVELS // 2


@_kept.register_fake
def _(x: Tensor, rate: float) -> Tensor:
    return torch.empty(x.shape, dtype=torch.bool)


def dropout(x: Tensor, rate: float) -> Tensor:
    """Set a share of the numbers to 0 and scale the others up.

    Args:
        x: the numbers, on a CPU.
        rate: the share to drop, from 0 to below 1.
    """
    if not rate:
        return x
    return torch.where(_kept(x.detach(), rate), x / (1 - rate), 0)


class Dropout(nn.Dropout):
    """PyTorch's dropout, faster on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the numbers after dropout in training, and as they are otherwise."""
        if not self.training or self.p == 1 or input.device.type != "cpu":
            return super().forward(input)
        return dropout(input, self.p)


def use_fast_dropout(model: nn.Module) -> None:
    """Replace a model's modules of dropout. That of attention's probabilities is transformers' for all models."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p, child.inplace))
    transformers.AttentionInterface.register("sdpa", attention)


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Return scaled dot-product attention as a model of transformers asks for it.

    On a CPU, PyTorch has no fused kernel with dropout; its own steps are those below.

    Args:
        module: the layer.
        query: (rows, heads, length, size).
        key, value: (rows, key-value heads, positions, size).
        attention_mask: true, or 0, where a token attends to a position; (rows, 1 or heads, length, positions) or None.
        **options: transformers' own.

    Returns:
        (rows, length, heads, size), and None.
    """
    rate = options.get("dropout", 0.0)
    if not rate or query.device.type != "cpu" or options.get("position_bias") is not None:
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    groups, scaling = getattr(module, "num_key_value_groups", 1), options.get("scaling")
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = query * (query.shape[-1] ** -0.5 if scaling is None else scaling) @ key.transpose(-2, -1)
    causal = options.get("is_causal")
    if attention_mask is None and (getattr(module, "is_causal", True) if causal is None else causal):
        attention_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attention_mask is not None:
        scores = scores + _additive(attention_mask, scores.dtype)
    probabilities = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype)
    probabilities = torch.where(_kept(probabilities.detach(), rate), probabilities, 0)
    return (probabilities @ (value / (1 - rate))).transpose(1, 2).contiguous(), None  # value is the smaller one


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to be added to scores: lowest where a token does not attend to a position."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)
