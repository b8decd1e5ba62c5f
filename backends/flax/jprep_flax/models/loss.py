"""Losses, summed: of tokens, in chunks of logits; of classes; of scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep_flax.models.sharding import batch_shards, sum_over_batch

LOGITS_PER_CHUNK = 1 << 23
"""Logits that are in a device's memory at a time."""

Logits = Callable[[Any, Array], Array]


def token_loss(logits: Logits, weights: Any, hidden: Array, labels: Array, z_loss: float = 0.0) -> Array:
    """Return Σ (z · ln² Z − ln p(label)), natural logarithm, with the softmax in fp32; Z is its denominator.

    The gradient is computed in the forward pass, a chunk of tokens of each row at a time, and only for as many chunks
    as have labels.

    Args:
        logits: maps weights and hidden states, (rows, tokens, width), to logits, (rows, tokens, ids).
        weights: a tree of arrays.
        hidden: (rows, length, width).
        labels: (rows, length), `IGNORE_INDEX` where there is none.
        z_loss: the factor z.

    Returns:
        The sum, in fp32.
    """
    arranged = labelled_first(logits, weights, hidden, labels)

    def shard_loss(given: tuple[Any, Array], hidden: Array, labels: Array) -> Array:
        return _chunked_loss(logits, arranged.size, z_loss, *given, hidden, labels)

    chunks = chunks_with_labels(arranged.labels, arranged.size)
    return sum_over_batch(shard_loss, (weights, chunks), arranged.hidden, arranged.labels)


class LabelledFirst(NamedTuple):
    """Hidden states and labels of rows, those with a label first, padded to whole chunks.

    Attributes:
        hidden: (rows, padded length, width).
        labels: (rows, padded length).
        order: the positions in their new order, (rows, length).
        size: tokens of a chunk.
        ids: number of logits of each token.
    """

    hidden: Array
    labels: Array
    order: Array
    size: int
    ids: int

    def arrange(self, values: Array, fill: int) -> Array:
        """Return values of the tokens, (rows, length), in the same order, padded with `fill`."""
        return _arrange(values, self.order, self.size, fill)


def labelled_first(logits: Logits, weights: Any, hidden: Array, labels: Array) -> LabelledFirst:
    """Arrange rows in chunks whose logits are in memory at a time; the arguments are those of `token_loss`."""
    rows, length = labels.shape
    ids = jax.eval_shape(logits, weights, hidden).shape[-1]
    chunks = -(-rows * length * ids // (LOGITS_PER_CHUNK * batch_shards()))
    size = -(-length // chunks)
    order = jnp.argsort(labels == IGNORE_INDEX, axis=1, stable=True)
    hidden, labels = _arrange(hidden, order, size, 0), _arrange(labels, order, size, IGNORE_INDEX)
    return LabelledFirst(hidden, labels, order, size, ids)


def _arrange(values: Array, order: Array, size: int, fill: int) -> Array:
    """Return the values of tokens in another order, padded with `fill` to a multiple of `size` tokens."""
    length, more = values.shape[1], values.ndim - 2
    values = jnp.take_along_axis(values, order.reshape(*order.shape, *(1,) * more), axis=1)
    padding = ((0, 0), (0, -length % size), *((0, 0),) * more)
    return jnp.pad(values, padding, constant_values=fill)


def replaced_loss(outputs: Array, replaced: Array) -> Array:
    """Return the binary cross-entropy of each token: - ln σ(output) if it was replaced, - ln (1 - σ(output)) if not."""
    return -jax.nn.log_sigmoid(jnp.where(replaced, outputs, -outputs))


def class_loss(outputs: Array, labels: Array, weight: Array) -> Array:
    """Return - Σ ln p(class) for outputs (rows, classes) and labels (rows,), each row times its weight."""
    log_probabilities = jax.nn.log_softmax(outputs)
    chosen = jnp.take_along_axis(log_probabilities, labels[:, None].astype(jnp.int32), axis=1)[:, 0]
    return -jnp.sum(chosen * weight)


def score_loss(outputs: Array, labels: Array, weight: Array) -> Array:
    """Return Σ (output − score)² for outputs (rows, 1) and scores (rows,), each row times its weight."""
    return jnp.sum(jnp.square(outputs[:, 0] - labels) * weight)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _chunked_loss(
    logits: Logits, size: int, z_loss: float, weights: Any, chunks: Array, hidden: Array, labels: Array
) -> Array:
    def add(number: Array, total: Array) -> Array:
        return total + _chunk_loss(logits, z_loss, weights, *_chunk(number, size, hidden, labels))

    return lax.fori_loop(0, chunks, add, jnp.zeros((), jnp.float32))


def _forward(
    logits: Logits, size: int, z_loss: float, weights: Any, chunks: Array, hidden: Array, labels: Array
) -> tuple[Array, Any]:
    """Compute the gradient with the loss: it is the last operation, so only a factor of the gradient is unknown."""

    def add(number: Array, sums: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
        total, weight_gradient, hidden_gradient = sums
        loss, weight_part, hidden_part = _chunk_gradient(logits, z_loss, weights, *_chunk(number, size, hidden, labels))
        hidden_gradient = lax.dynamic_update_slice_in_dim(hidden_gradient, hidden_part, number * size, axis=1)
        return total + loss, jax.tree.map(jnp.add, weight_gradient, weight_part), hidden_gradient

    zeros = jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, weights), jnp.zeros_like(hidden)
    total, *gradients = lax.fori_loop(0, chunks, add, zeros)
    return total, tuple(gradients)


def _backward(logits: Logits, size: int, z_loss: float, gradients: Any, factor: Array) -> tuple[Any, None, Array, None]:
    weight_gradient, hidden_gradient = jax.tree.map(lambda one: (one * factor).astype(one.dtype), gradients)
    return weight_gradient, None, hidden_gradient, None


_chunked_loss.defvjp(_forward, _backward)


def chunks_with_labels(labels: Array, size: int) -> Array:
    """Return how many chunks have labels, which come first in each row; the same on all devices, so none waits."""
    most = jnp.max(jnp.sum(labels != IGNORE_INDEX, axis=1))
    return (most + size - 1) // size


def _chunk(number: Array, size: int, hidden: Array, labels: Array) -> tuple[Array, Array]:
    return tuple(lax.dynamic_slice_in_dim(array, number * size, size, axis=1) for array in (hidden, labels))  # type: ignore[return-value]


def _chunk_loss(logits: Logits, z_loss: float, weights: Any, hidden: Array, labels: Array) -> Array:
    return _losses(logits(weights, hidden), labels, z_loss)[0]


def _chunk_gradient(
    logits: Logits, z_loss: float, weights: Any, hidden: Array, labels: Array
) -> tuple[Array, Any, Array]:
    scores, backward = jax.vjp(logits, weights, hidden)
    loss, normalizer = _losses(scores, labels, z_loss)
    one_hot = labels[..., None] == jnp.arange(scores.shape[-1])
    known = labels[..., None] != IGNORE_INDEX
    p = jnp.exp(scores.astype(jnp.float32) - normalizer)
    p *= 1 + 2 * z_loss * normalizer if z_loss else 1
    gradient = jnp.where(known, p - one_hot, 0)  # without z: p, and p − 1 at the label
    return loss, *backward(gradient.astype(scores.dtype))


def _losses(scores: Array, labels: Array, z_loss: float) -> tuple[Array, Array]:
    """Return the sum of a chunk's losses, and the logarithm of each token's softmax denominator."""
    known, scores = labels != IGNORE_INDEX, scores.astype(jnp.float32)
    chosen = jnp.take_along_axis(scores, jnp.where(known, labels, 0)[..., None], axis=-1)
    normalizer = jax.nn.logsumexp(scores, axis=-1, keepdims=True)
    losses = normalizer - chosen + z_loss * jnp.square(normalizer)
    return jnp.sum(jnp.where(known, losses[..., 0], 0)), normalizer
