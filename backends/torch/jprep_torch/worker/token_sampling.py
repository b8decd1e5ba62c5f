"""Sample tokens from logits with the noise of `jprep.dataset.sampling.token_noise`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from jprep.dataset.sampling.token_noise import FIRST, SECOND, SHIFTS, STEP, UInt32Array

_CPU_BLOCK = 1 << 18
"""Logits that are processed at a time on a CPU: intermediate results stay in its cache, which is ten times faster."""


def word_tensor(words: UInt32Array) -> Tensor:
    """Return words of 32 bits as signed integers, which PyTorch can multiply and shift."""
    return torch.from_numpy(np.ascontiguousarray(words, np.uint32).view(np.int32))


def sample_tokens(logits: Tensor, keys: Tensor, words: Tensor) -> Tensor:
    """Return a sample of the softmax of each row of logits.

    Args:
        logits: fp32, (tokens, ids).
        keys: random bits of each token, int32, (tokens,).
        words: words of the ids, int32, (ids,).

    Returns:
        int64, (tokens,).
    """
    rows = len(logits)
    if logits.device.type == "cpu":
        rows = max(1, _CPU_BLOCK // logits.shape[1])
    starts = range(0, len(logits), max(1, rows))
    parts = [_sample(logits[start : start + rows], keys[start : start + rows], words) for start in starts]
    return torch.cat(parts) if parts else keys.long()


def _sample(logits: Tensor, keys: Tensor, words: Tensor) -> Tensor:
    share = (_mix32(words ^ keys.unsqueeze(1)).float() + 0.5) * STEP
    uniform = share - share.floor()  # the bits are signed; may round to 1: a noise of minus infinity
    return (logits - uniform.neg_().log1p_().neg_().log_()).argmax(1)


def _mix32(words: Tensor) -> Tensor:
    """Scramble words of 32 bits. Products are modulo 2³²; masks make right shifts those of unsigned integers."""
    before, between, after = SHIFTS
    words = (words ^ _shift(words, before)) * _signed(FIRST)
    words = (words ^ _shift(words, between)) * _signed(SECOND)
    return words ^ _shift(words, after)


def _shift(words: Tensor, count: int) -> Tensor:
    return (words >> count) & ((1 << (32 - count)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
