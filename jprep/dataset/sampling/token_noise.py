"""Noise for sampling tokens from a model's logits, the same in every framework. `docs/sampling.md` has the formulas.

The largest sum of logit and Gumbel noise is a sample of the softmax. The random bits are integers, the same everywhere;
the noise is their double logarithm in fp32. Rounding changes a sample only if the two largest sums are that close.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.sample_index import Integers
from jprep.random.counter_bits import bits, key

UInt32Array = npt.NDArray[np.uint32]

MIX_MULTIPLIERS = (0x85EBCA6B, 0xC2B2AE35)
"""Factors of the two products of the 32-bit mixer, that of MurmurHash3."""

MIX_SHIFTS = (16, 13, 16)
"""Right shifts of the mixer: before, between and after its two products."""

UNIFORM_STEP = 2.0**-32
"""Distance of the uniform numbers that random bits are mapped to."""

_ID_MULTIPLIER = 0x9E3779B9  # 2³² divided by the golden ratio


def noise_keys(seed: int, split: str, epochs: Integers, indices: Integers, columns: int) -> UInt32Array:
    """Return 32 random bits for each token of a batch, from which the noise of all ids is computed.

    Args:
        seed: the seed of the job.
        split: the name of the split.
        epochs: epoch of each row, (rows,).
        indices: sample of each row, (rows,).
        columns: tokens per row.

    Returns:
        uint32, (rows, columns).
    """
    keys = key(seed, split, epochs, indices, "replace").reshape(-1, 1)
    found: UInt32Array = (bits(keys, np.arange(columns, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32)
    return found


def id_words(vocab_size: int) -> UInt32Array:
    """Return a word of 32 bits for each id, different for each, (vocab_size,)."""
    return mix32(np.arange(1, vocab_size + 1, dtype=np.uint32) * np.uint32(_ID_MULTIPLIER))


def mix32(words: UInt32Array) -> UInt32Array:
    """Scramble each word with a bijection."""
    before, between, after = (np.uint32(shift) for shift in MIX_SHIFTS)
    first, second = (np.uint32(factor) for factor in MIX_MULTIPLIERS)
    words = (words ^ (words >> before)) * first
    words = (words ^ (words >> between)) * second
    return words ^ (words >> after)


def gumbel_noise(keys: UInt32Array, words: UInt32Array) -> npt.NDArray[np.float64]:
    """Return the noise of each token and id in double precision, the reference for the backends' fp32.

    Args:
        keys: from `noise_keys`, (tokens,).
        words: from `id_words`, (ids,).

    Returns:
        (tokens, ids).
    """
    uniform = (mix32(words ^ keys.reshape(-1, 1)) + 0.5) * UNIFORM_STEP
    noise: npt.NDArray[np.float64] = -np.log(-np.log1p(-uniform))
    return noise
