"""Dropout by hashes: the key and a number's indices decide whether it is dropped."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

EMBEDDING_DROPOUT, HEAD_DROPOUT, GENERATOR_DROPOUT = 1 << 20, 1 << 21, 1 << 22
"""Numbers folded into the dropout key outside the layers, which are numbered from 0."""

_drawn_by_jax = False

_GOLDEN = np.uint32(0x9E3779B9)
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)


def dropout(x: Array, rate: float, key: Array | None, salt: int) -> Array:
    """Set a share of the numbers to 0 and scale the others by 1 / (1 − rate).

    Args:
        x: the numbers.
        rate: the share to drop, from 0 to below 1.
        key: random key; None drops nothing.
        salt: number folded into the key, different for each use of the same key.
    """
    if key is None or not rate:
        return x
    key = jax.random.fold_in(key, salt)
    if _drawn_by_jax:
        kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    else:
        kept = _random_bits(key, x.shape) < np.uint32(min(round((1 - rate) * 2**32), 2**32 - 1))
    return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)


def choose_masks(version: int) -> None:
    """Set how this process draws masks: as a job's `dropout_masks` says."""
    global _drawn_by_jax  # a process trains one job, and models of users call `dropout` as well
    _drawn_by_jax = version == 1


def _random_bits(key: Array, shape: tuple[int, ...]) -> Array:
    """Return 32 random bits for each number of an array, uint32: a chain of hashes of the index along each axis.

    Only the last hash is as large as the array: XLA fuses it with the comparison, and each device computes its own
    part. `jax.random.bernoulli` took up to forty times as long on a CPU.

    Args:
        key: random key, of which the first two words are used.
        shape: the array's.
    """
    first, second = jax.random.key_data(key)[..., 0], jax.random.key_data(key)[..., 1]
    state = first
    for axis in range(len(shape)):
        index = lax.broadcasted_iota(jnp.uint32, [1] * axis + [shape[axis]] + [1] * (len(shape) - axis - 1), axis)
        state = _mix((state + _GOLDEN) ^ index)
    return _mix(state ^ second)


def _mix(words: Array) -> Array:
    """Scramble each word with a bijection, in which every bit of a word changes about half of the others."""
    words = words ^ (words >> 16)
    words *= _FIRST
    words ^= words >> 15
    words *= _SECOND
    return words ^ (words >> 16)
