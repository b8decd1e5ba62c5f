"""Sample tokens from logits with the noise of `jprep.dataset.sampling.token_noise`."""

from __future__ import annotations

import torch
from torch import Tensor

from jprep.dataset.sampling.token_noise import FIRST, SECOND, SHIFTS, STEP

_LOW = 0xFFFFFFFF


def sample_tokens(logits: Tensor, keys: Tensor, words: Tensor) -> Tensor:
    """Return a sample of the softmax of each row of logits.

    Args:
        logits: fp32, (tokens, ids).
        keys: random bits of each token, int64 from 0 to below 2³², (tokens,).
        words: words of the ids, int64 from 0 to below 2³², (ids,).

    Returns:
        int64, (tokens,).
    """
    bits = _mix32(words ^ keys.unsqueeze(1))
    uniform = (bits.float() + 0.5) * STEP  # may round to 1: a noise of minus infinity
    return (logits - torch.log(-torch.log1p(-uniform))).argmax(1)


def _mix32(words: Tensor) -> Tensor:
    """Scramble words of 32 bits; PyTorch has no shifts of unsigned integers, so they are in int64."""
    before, between, after = SHIFTS
    words = ((words ^ (words >> before)) * FIRST) & _LOW
    words = ((words ^ (words >> between)) * SECOND) & _LOW
    return words ^ (words >> after)
