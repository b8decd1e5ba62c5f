"""Attention and its masks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jprep_flax.models.dropout import dropout


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
    # JAX's own is up to a seventh faster on a CPU. It has no dropout, and on CPUs no fp16.
    supported = query.dtype != jnp.float16 or jax.default_backend() != "cpu"
    if supported and (key is None or not dropout_rate):
        return jax.nn.dot_product_attention(query, keys, values, mask=mask[:, None]).reshape(rows, length, heads * size)
    query = (query * size**-0.5).reshape(rows, length, keys.shape[2], -1, size)
    scores = jnp.einsum("rqhgs,rkhs->rhgqk", query, keys).astype(jnp.float32)
    scores = jnp.where(mask[:, None, None], scores, jnp.finfo(jnp.float32).min)
    probabilities = dropout(jax.nn.softmax(scores).astype(query.dtype), dropout_rate, key, 0)
    return jnp.einsum("rhgqk,rkhs->rqhgs", probabilities, values).reshape(rows, length, heads * size)


def causal_mask(length: int, positions: int | None = None) -> Array:
    """Return the mask of tokens that attend to themselves and to earlier ones, (1, length, positions)."""
    return jnp.tril(jnp.ones((1, length, positions or length), bool))


def row_mask(lengths: Array, length: int, documents: Array | None, *, causal: bool) -> Array:
    """Return which positions of its row each token attends to, (rows or 1, length or 1, length).

    Args:
        lengths: tokens without padding, (rows,).
        length: tokens of a row.
        documents: the document of each token, (rows, length): tokens attend to those of their own; None to all.
        causal: whether they attend to earlier ones and themselves only. Padding at the end needs no mask then.
    """
    if documents is None:
        return causal_mask(length) if causal else padding_mask(lengths, length)
    own = documents[:, :, None] == documents[:, None]  # padding is a document of its own, so that no row is empty
    return own & causal_mask(length) if causal else own


def row_positions(length: int, documents: Array | None) -> Array:
    """Return the position of each token in its row, (length,), or in its document, (rows, length)."""
    columns = jnp.arange(length)
    if documents is None:
        return columns
    begins = jnp.pad(documents[:, 1:] != documents[:, :-1], ((0, 0), (1, 0)))
    return columns - jax.lax.cummax(jnp.where(begins, columns, 0), axis=1)


def padding_mask(lengths: Array, length: int) -> Array:
    """Return the mask of positions that are not padding, (rows, 1, length)."""
    return jnp.arange(length) < lengths[:, None, None]
