"""Sample tokens from logits with the noise of `jprep.dataset.sampling.token_noise`."""

from __future__ import annotations

import torch
from torch import Tensor

from jprep.dataset.sampling.token_noise import MIX_MULTIPLIERS, MIX_SHIFTS, UNIFORM_STEP

_LOW = 0xFFFFFFFF
_CPU_BLOCK = 1 << 16
"""Logits that are processed at a time on a CPU: intermediate results stay in its cache."""


def sample_tokens(logits: Tensor, keys: Tensor, words: Tensor) -> Tensor:
    """Return a sample of the softmax of each row of logits.

    Args:
        logits: fp32, (tokens, ids).
        keys: random bits of each token, int64 from 0 to below 2³², (tokens,).
        words: words of the ids, int64 from 0 to below 2³², (ids,).

    Returns:
        int64, (tokens,).
    """
    if logits.device.type != "cpu":
        return _sample(logits, keys, words)
    rows = max(1, _CPU_BLOCK // logits.shape[1])
    parts = [_sample(*part, words) for part in zip(logits.split(rows), keys.split(rows), strict=True)]
    return torch.cat(parts) if len(keys) else keys


def _sample(logits: Tensor, keys: Tensor, words: Tensor) -> Tensor:
    bits = _mix32(words ^ keys.unsqueeze(1))
    uniform = (bits.float() + 0.5) * UNIFORM_STEP  # may round to 1: a noise of minus infinity
    return (logits - uniform.neg_().log1p_().neg_().log_()).argmax(1)


def _mix32(words: Tensor) -> Tensor:
    """Scramble words of 32 bits; PyTorch has no shifts of unsigned integers, so they are in int64."""
    (before, between, after), (first, second) = MIX_SHIFTS, MIX_MULTIPLIERS
    words = (words ^ (words >> before)).mul_(first).bitwise_and_(_LOW)
    words = (words ^ (words >> between)).mul_(second).bitwise_and_(_LOW)
    return words ^ (words >> after)
