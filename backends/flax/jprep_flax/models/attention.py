"""What a token sees, and what it takes of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jprep_flax.models.layers import dropout


def dot_product_attention(
    query: Array, keys: Array, values: Array, seen: Array, share: float, key: Array | None
) -> Array:
    """Attention, its softmax in fp32.

    Args:
        query: (rows, length, heads, size).
        keys, values: (rows, others, shared heads, size); each serves heads / shared heads of the query's.
        seen: which of the others a token sees; (rows or 1, length or 1, others).
        share: of probabilities that are dropped.
        key: of dropout.

    Returns:
        (rows, length, heads · size).
    """
    rows, length, heads, size = query.shape
    query = (query * size**-0.5).reshape(rows, length, keys.shape[2], -1, size)
    scores = jnp.einsum("rqhgs,rkhs->rhgqk", query, keys).astype(jnp.float32)
    scores = jnp.where(seen[:, None, None], scores, jnp.finfo(jnp.float32).min)
    shares = dropout(jax.nn.softmax(scores).astype(query.dtype), share, key, 0)
    return jnp.einsum("rhgqk,rkhs->rqhgs", shares, values).reshape(rows, length, heads * size)


def causal_mask(length: int, others: int | None = None) -> Array:
    """A token sees itself and those before it: (1, length, others)."""
    return jnp.tril(jnp.ones((1, length, others or length), bool))


def padding_mask(lengths: Array, length: int) -> Array:
    """What is not padding, (rows, 1, length)."""
    return jnp.arange(length) < lengths[:, None, None]
