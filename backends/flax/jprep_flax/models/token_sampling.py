"""Sample tokens from logits with the noise of `jprep.dataset.sampling.token_noise`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from jprep.dataset.sampling.token_noise import MIX_MULTIPLIERS, MIX_SHIFTS, UNIFORM_STEP, id_words
from jprep_flax.models.loss import Logits, chunks_with_labels, labelled_first
from jprep_flax.models.sharding import map_batch


def sample_labelled(logits: Logits, weights: Any, hidden: Array, labels: Array, keys: Array) -> Array:
    """Return a token sampled from the softmax at each position that has a label, without gradients.

    Args:
        logits: maps weights and hidden states, (rows, tokens, width), to logits, (rows, tokens, ids).
        weights: a tree of arrays.
        hidden: (rows, length, width).
        labels: (rows, length), `IGNORE_INDEX` where there is none.
        keys: random bits of each token, uint32, (rows, length).

    Returns:
        int32, (rows, length); anything where there is no label.
    """
    weights, hidden = lax.stop_gradient((weights, hidden))
    arranged = labelled_first(logits, weights, hidden, labels)
    keys = arranged.arrange(keys, 0)
    words = jnp.asarray(id_words(arranged.ids))

    def shard_samples(given: tuple[Any, Array], hidden: Array, keys: Array) -> Array:
        own_weights, chunks = given

        def add(number: Array, samples: Array) -> Array:
            start = number * arranged.size
            part, own = (lax.dynamic_slice_in_dim(one, start, arranged.size, axis=1) for one in (hidden, keys))
            chosen = sample_tokens(logits(own_weights, part), own, words)
            return lax.dynamic_update_slice_in_dim(samples, chosen, start, axis=1)

        return lax.fori_loop(0, chunks, add, jnp.zeros(keys.shape, jnp.int32))

    chunks = chunks_with_labels(arranged.labels, arranged.size)
    samples = map_batch(shard_samples, (weights, chunks), arranged.hidden, keys)
    return jnp.take_along_axis(samples, jnp.argsort(arranged.order, axis=1), axis=1)


def sample_tokens(logits: Array, keys: Array, words: Array) -> Array:
    """Return samples of the softmax.

    Args:
        logits: (…, ids).
        keys: uint32, (…).
        words: words of the ids, uint32, (ids,).

    Returns:
        int32, (…).
    """
    uniform = (_mix32(words ^ keys[..., None]).astype(jnp.float32) + 0.5) * UNIFORM_STEP  # may round to 1: never chosen
    noise = -jnp.log(-jnp.log1p(-uniform))
    return jnp.argmax(logits.astype(jnp.float32) + noise, axis=-1).astype(jnp.int32)


def _mix32(words: Array) -> Array:
    """Scramble words of 32 bits."""
    before, between, after = (jnp.uint32(shift) for shift in MIX_SHIFTS)
    first, second = (jnp.uint32(factor) for factor in MIX_MULTIPLIERS)
    words = (words ^ (words >> before)) * first
    words = (words ^ (words >> between)) * second
    return words ^ (words >> after)
