"""Losses, summed: of tokens, without a table of all of them by all ids; of classes; of scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jprep_flax.worker.sharding import batch_shards, sum_over_batch

NO_LABEL = -100

LOGITS_PER_CHUNK = 1 << 23
"""Numbers of the table of logits that are there at a time, on a device."""

Logits = Callable[[Any, Array], Array]


def token_loss(logits: Logits, weights: Any, hidden: Array, labels: Array) -> Array:
    """- Σ ln p(label), natural logarithm, softmax in fp32.

    Args:
        logits: makes, of weights and vectors (rows, some, width), logits (rows, some, ids).
        weights: a tree of arrays.
        hidden: (rows, length, width).
        labels: (rows, length), `NO_LABEL` where there is none.

    Returns:
        The sum, in fp32. Its gradient is worked out on the way forward, some tokens of each row at a time, and of these
        no more than have labels.
    """
    rows, length = labels.shape
    ids = jax.eval_shape(logits, weights, hidden).shape[-1]
    parts = -(-rows * length * ids // (LOGITS_PER_CHUNK * batch_shards()))
    size = -(-length // parts)
    room = -(-length // size) * size - length
    order = jnp.argsort(labels == NO_LABEL, axis=1, stable=True)
    hidden = jnp.take_along_axis(hidden, order[..., None], axis=1)
    labels = jnp.take_along_axis(labels, order, axis=1)
    hidden = jnp.pad(hidden, ((0, 0), (0, room), (0, 0)))
    labels = jnp.pad(labels, ((0, 0), (0, room)), constant_values=NO_LABEL)

    def part(given: tuple[Any, Array], hidden: Array, labels: Array) -> Array:
        return _summed(logits, size, *given, hidden, labels)

    return sum_over_batch(part, (weights, _needed(labels, size)), hidden, labels)


def class_loss(outputs: Array, labels: Array, weight: Array) -> Array:
    """- Σ ln p(class) of outputs (rows, classes) and labels (rows,), each row times its weight."""
    found = jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None].astype(jnp.int32), axis=1)[:, 0]
    return -jnp.sum(found * weight)


def score_loss(outputs: Array, labels: Array, weight: Array) -> Array:
    """Σ (output − score)² of outputs (rows, 1) and scores (rows,), each row times its weight."""
    return jnp.sum(jnp.square(outputs[:, 0] - labels) * weight)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _summed(logits: Logits, size: int, weights: Any, needed: Array, hidden: Array, labels: Array) -> Array:
    def add(number: Array, total: Array) -> Array:
        return total + _chunk_loss(logits, weights, *_chunk(number, size, hidden, labels))

    return lax.fori_loop(0, needed, add, jnp.zeros((), jnp.float32))


def _forward(logits: Logits, size: int, weights: Any, needed: Array, hidden: Array, labels: Array) -> tuple[Array, Any]:
    """The loss is the last thing that is computed, so its gradient is known but for a factor as soon as the loss is."""

    def add(number: Array, sums: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
        total, of_weights, of_hidden = sums
        loss, first, second = _chunk_gradient(logits, weights, *_chunk(number, size, hidden, labels))
        of_hidden = lax.dynamic_update_slice_in_dim(of_hidden, second, number * size, axis=1)
        return total + loss, jax.tree.map(jnp.add, of_weights, first), of_hidden

    zeros = jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, weights), jnp.zeros_like(hidden)
    total, *gradients = lax.fori_loop(0, needed, add, zeros)
    return total, tuple(gradients)


def _backward(logits: Logits, size: int, gradients: Any, factor: Array) -> tuple[Any, None, Array, None]:
    of_weights, of_hidden = jax.tree.map(lambda one: (one * factor).astype(one.dtype), gradients)
    return of_weights, None, of_hidden, None


_summed.defvjp(_forward, _backward)


def _needed(labels: Array, size: int) -> Array:
    """How many chunks have labels: they stand first in each row. Of all rows: no device waits for another one."""
    most = jnp.max(jnp.sum(labels != NO_LABEL, axis=1))
    return (most + size - 1) // size


def _chunk(number: Array, size: int, hidden: Array, labels: Array) -> tuple[Array, Array]:
    return tuple(lax.dynamic_slice_in_dim(one, number * size, size, axis=1) for one in (hidden, labels))  # type: ignore[return-value]


def _chunk_loss(logits: Logits, weights: Any, hidden: Array, labels: Array) -> Array:
    return _losses(logits(weights, hidden), labels)[0]


def _chunk_gradient(logits: Logits, weights: Any, hidden: Array, labels: Array) -> tuple[Array, Any, Array]:
    table, back = jax.vjp(logits, weights, hidden)
    loss, normaliser = _losses(table, labels)
    right = labels[..., None] == jnp.arange(table.shape[-1])
    known = labels[..., None] != NO_LABEL
    gradient = jnp.where(known, jnp.exp(table.astype(jnp.float32) - normaliser) - right, 0)  # p, and p - 1 at the label
    return loss, *back(gradient.astype(table.dtype))


def _losses(table: Array, labels: Array) -> tuple[Array, Array]:
    """The sum of a chunk's losses, and what each token's softmax is divided by, its logarithm."""
    known, table = labels != NO_LABEL, table.astype(jnp.float32)
    found = jnp.take_along_axis(table, jnp.where(known, labels, 0)[..., None], axis=-1)
    normaliser = jax.nn.logsumexp(table, axis=-1, keepdims=True)
    return jnp.sum(jnp.where(known, (normaliser - found)[..., 0], 0)), normaliser
