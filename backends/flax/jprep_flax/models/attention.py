"""Attention and its masks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jprep_flax.models.layers import dropout


def dot_product_attention(
    query: Array, keys: Array, values: Array, mask: Array, dropout_rate: float, key: Array | None
) -> Array:
    """Return scaled dot-product attention; the softmax is in fp32.

    Args:
        query: (rows, length, heads, size).
        keys, values: (rows, positions, key-value heads, size); each serves heads / key-value heads query heads.
        mask: true where a token attends to a position; (rows or 1, length or 1, positions).
        dropout_rate: share of the probabilities to drop.
        key: random key of dropout; None drops nothing.

    Returns:
        (rows, length, heads · size).
    """
    rows, length, heads, size = query.shape
    query = (query * size**-0.5).reshape(rows, length, keys.shape[2], -1, size)
    scores = jnp.einsum("rqhgs,rkhs->rhgqk", query, keys).astype(jnp.float32)
    scores = jnp.where(mask[:, None, None], scores, jnp.finfo(jnp.float32).min)
    probabilities = dropout(jax.nn.softmax(scores).astype(query.dtype), dropout_rate, key, 0)
    return jnp.einsum("rhgqk,rkhs->rqhgs", probabilities, values).reshape(rows, length, heads * size)


def causal_mask(length: int, positions: int | None = None) -> Array:
    """Return the mask of tokens that attend to themselves and to earlier ones, (1, length, positions)."""
    return jnp.tril(jnp.ones((1, length, positions or length), bool))


def padding_mask(lengths: Array, length: int) -> Array:
    """Return the mask of positions that are not padding, (rows, 1, length)."""
    return jnp.arange(length) < lengths[:, None, None]
