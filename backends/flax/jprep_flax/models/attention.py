"""Attention and its masks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

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
    drops_nothing = key is None or not dropout_rate
    if drops_nothing and jax.default_backend() != "cpu":  # fused on GPUs; it has no dropout, and is slower on CPUs
        return jax.nn.dot_product_attention(query, keys, values, mask=mask[:, None]).reshape(rows, length, heads * size)
    query = jnp.moveaxis(query.reshape(rows, length, keys.shape[2], -1, size), 1, 3) * size**-0.5
    keys, values = (jnp.swapaxes(one, 1, 2) for one in (keys, values))
    attended = _attention(dropout_rate, query, keys, values, mask, None if drops_nothing else key)
    return jnp.moveaxis(attended, 3, 1).reshape(rows, length, heads * size)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(rate: float, query: Array, keys: Array, values: Array, mask: Array, key: Array | None) -> Array:
    """Return the attention of groups of heads with common keys and values, in the shape of the query.

    Its gradient sums over the width of the output where that of the softmax sums over positions, which are more.

    Args:
        rate: share of the probabilities to drop.
        query: (rows, groups, heads of a group, length, size), scaled.
        keys, values: (rows, groups, positions, size).
        mask: (rows or 1, length or 1, positions). Tokens that attend to nothing need a gradient of 0, as padding has.
        key: random key of dropout; None drops nothing.
    """
    return _forward(rate, query, keys, values, mask, key)[0]


def _forward(
    rate: float, query: Array, keys: Array, values: Array, mask: Array, key: Array | None
) -> tuple[Array, tuple[Any, ...]]:
    scores = _multiply(query, keys, (4,), (3,)).astype(jnp.float32)
    scores = jnp.where(mask[:, None, None], scores, jnp.finfo(jnp.float32).min)
    probabilities = jax.nn.softmax(scores).astype(query.dtype)
    output = _multiply(dropout(probabilities, rate, key, 0), values, (4,), (2,))
    return output, (query, keys, values, key, probabilities, output)


def _backward(rate: float, residuals: tuple[Any, ...], gradient: Array) -> tuple[Array | None, ...]:
    query, keys, values, key, probabilities, output = residuals
    kept = dropout(probabilities, rate, key, 0)
    wide = jnp.float32
    sums = jnp.sum(gradient.astype(wide) * output.astype(wide), -1, keepdims=True)
    scores = kept.astype(wide) * _multiply(gradient, values, (4,), (3,)).astype(wide) - probabilities * sums
    scores = scores.astype(query.dtype)
    keys_gradient, values_gradient = (_multiply(*pair, (2, 3), (2, 3)) for pair in ((scores, query), (kept, gradient)))
    return _multiply(scores, keys, (4,), (2,)), keys_gradient, values_gradient, None, None


_attention.defvjp(_forward, _backward)


def _multiply(left: Array, right: Array, left_axes: tuple[int, ...], right_axes: tuple[int, ...]) -> Array:
    """Multiply the matrices of each row and group, summed over these axes."""
    return lax.dot_general(left, right, ((left_axes, right_axes), ((0, 1), (0, 1))))


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
