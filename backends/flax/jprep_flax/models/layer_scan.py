"""Ways through stacked layers: compiled once, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from jprep_flax.worker.sharding import shard_batch


def scan_layers(
    layers: nnx.Module, x: Array, key: Array | None, step: Callable[[Any, Array, Array | None], Array], remat: bool
) -> Array:
    """Take x through stacked layers, one after the other.

    Args:
        layers: a layer whose weights are those of all.
        x: what the first one takes.
        key: of dropout; each layer has its own.
        step: one layer's way from x to x.
        remat: whether what a layer computes is computed again on the way back, and not kept.
    """
    graph, weights = nnx.split(layers)
    count = jax.tree.leaves(weights)[0].shape[0]

    def one(x: Array, each: tuple[Any, Array]) -> tuple[Array, None]:
        own, number = each
        own_key = None if key is None else jax.random.fold_in(key, number)
        return shard_batch(step(nnx.merge(graph, own), x, own_key)), None

    return lax.scan(jax.checkpoint(one) if remat else one, shard_batch(x), (weights, jnp.arange(count)))[0]


class KVCache(NamedTuple):
    """What a causal model remembers of tokens that it has seen.

    Attributes:
        keys, values: (layers, rows, positions, shared heads, size).
    """

    keys: Array
    values: Array

    @classmethod
    def empty(cls, config: dict[str, Any], most: int) -> KVCache:
        """One for a row of so many tokens."""
        layers = config.get("n_layer") or config["num_hidden_layers"]
        heads = config.get("n_head") or config["num_key_value_heads"]
        shape = layers, 1, most, heads, config.get("head_dim") or config["n_embd"] // heads
        return cls(jnp.zeros(shape), jnp.zeros(shape))


AppendToCache = Callable[[Array, Array], tuple[Array, Array]]
"""Gives for keys and values of some tokens those of all."""


def scan_layers_with_cache(
    layers: nnx.Module,
    x: Array,
    place: Array,
    cache: KVCache,
    step: Callable[[Any, Array, Array, AppendToCache], Array],
) -> tuple[Array, KVCache]:
    """Take tokens through stacked layers that remember those before.

    Args:
        layers: a layer whose weights are those of all.
        x: what the first one takes, (rows, some, width).
        place: how many tokens were seen before.
        cache: of these.
        step: one layer's way from x to x: of the layer, x, what is seen, and what remembers.
    """
    graph, weights = nnx.split(layers)
    most, length = cache.keys.shape[2], x.shape[1]
    seen = (jnp.arange(most) <= place + jnp.arange(length)[:, None])[None]

    def one(x: Array, each: tuple[Any, KVCache]) -> tuple[Array, KVCache]:
        own, past = each
        kept: list[KVCache] = []

        def remember(*new: Array) -> tuple[Array, Array]:
            kept.append(
                KVCache(*(lax.dynamic_update_slice_in_dim(*pair, place, 1) for pair in zip(past, new, strict=True)))
            )
            return kept[0]

        return step(nnx.merge(graph, own), x, seen, remember), kept[0]

    return lax.scan(one, x, (weights, cache))
