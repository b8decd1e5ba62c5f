"""Apply stacked layers by a scan: one layer is compiled, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from jprep.train.models.model_family import layer_count
from jprep_flax.models.sharding import shard_batch

ApplyLayer = Callable[[Any, Array, Array | None, Array], Array]
"""Applies one layer: its arguments are the layer, x, the layer's key, and the number of the layer from 0."""


def scan_layers(layers: nnx.Module, x: Array, key: Array | None, apply: ApplyLayer, remat: bool) -> Array:
    """Apply stacked layers to x, one after the other.

    Args:
        layers: one layer whose weights are stacked over all layers.
        x: input of the first layer.
        key: random key of dropout, from which each layer derives its own; None drops nothing.
        apply: applies one layer.
        remat: whether to recompute the activations of a layer in the backward pass.
    """
    graph, weights = nnx.split(layers)
    count = jax.tree.leaves(weights)[0].shape[0]

    def one_layer(x: Array, scanned: tuple[Any, Array]) -> tuple[Array, None]:
        own_weights, number = scanned
        own_key = None if key is None else jax.random.fold_in(key, number)
        return shard_batch(apply(nnx.merge(graph, own_weights), x, own_key, number)), None

    body = jax.checkpoint(one_layer) if remat else one_layer
    return lax.scan(body, shard_batch(x), (weights, jnp.arange(count)))[0]


class KVCache(NamedTuple):
    """Keys and values of the tokens that a causal model has seen.

    Attributes:
        keys, values: (layers, rows, positions, key-value heads, size).
    """

    keys: Array
    values: Array

    @classmethod
    def empty(cls, config: dict[str, Any], positions: int) -> KVCache:
        """Return a cache for one row of up to `positions` tokens."""
        layers = layer_count(config)
        heads = config.get("n_head") or config["num_key_value_heads"]
        shape = layers, 1, positions, heads, config.get("head_dim") or config["n_embd"] // heads
        return cls(jnp.zeros(shape), jnp.zeros(shape))


AppendToCache = Callable[[Array, Array], tuple[Array, Array]]
"""Takes keys and values of new tokens, and returns those of all tokens so far."""


def scan_layers_with_cache(
    layers: nnx.Module,
    x: Array,
    position: Array,
    cache: KVCache,
    apply: Callable[[Any, Array, Array, AppendToCache], Array],
) -> tuple[Array, KVCache]:
    """Apply stacked layers to new tokens that attend to cached ones.

    Args:
        layers: one layer whose weights are stacked over all layers.
        x: input of the first layer, (rows, new tokens, width).
        position: number of tokens in the cache.
        cache: the cache.
        apply: applies one layer: its arguments are the layer, x, the attention mask and a function that appends to the
            layer's cache.

    Returns:
        The output of the last layer, and the cache with the new tokens.
    """
    graph, weights = nnx.split(layers)
    positions, length = cache.keys.shape[2], x.shape[1]
    mask = (jnp.arange(positions) <= position + jnp.arange(length)[:, None])[None]

    def one_layer(x: Array, scanned: tuple[Any, KVCache]) -> tuple[Array, KVCache]:
        own_weights, past = scanned
        updated: list[KVCache] = []

        def append(*new: Array) -> tuple[Array, Array]:
            pairs = zip(past, new, strict=True)
            updated.append(KVCache(*(lax.dynamic_update_slice_in_dim(*pair, position, 1) for pair in pairs)))
            return updated[0]

        return apply(nnx.merge(graph, own_weights), x, mask, append), updated[0]

    return lax.scan(one_layer, x, (weights, cache))
