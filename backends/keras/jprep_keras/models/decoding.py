"""Causal models that continue from a cache of keys and values."""

from __future__ import annotations

from typing import Any

from keras import ops

from jprep.train.models.model_family import layer_count
from jprep_keras.models.model_with_loss import ModelWithLoss
from jprep_keras.models.variables import Weights

Cache = Any
"""Keys and values of earlier tokens, (layers, rows, 2, positions, key-value heads, size)."""


def empty_cache(config: dict[str, Any], positions: int) -> Cache:
    """Return an empty cache for one row.

    Args:
        config: transformers' config.
        positions: number of tokens that it can hold.
    """
    layers = layer_count(config)
    heads = config.get("num_key_value_heads") or config["n_head"]
    size = config.get("head_dim") or config["n_embd"] // config["n_head"]
    return ops.zeros((layers, 1, 2, positions, heads, size), "float32")


def continue_from(
    model: ModelWithLoss, weights: Weights, ids: Any, start: Any, last: Any, cache: Cache
) -> tuple[Any, Cache]:
    """Return the logits of one of the new tokens, (ids,), and the cache with all of them.

    Args:
        model: a causal model.
        weights: weights by transformers' names.
        ids: new tokens, (1, tokens).
        start: number of tokens in the cache.
        last: index of the token among the new ones whose logits are returned.
        cache: keys and values of earlier tokens.
    """
    with model.scope(weights):
        backbone, layers = model.backbone, []
        x = backbone.token_embedding(ids)
        if model.model_type == "gpt2":
            x = x + backbone.position_embedding(x, start_index=start)
        for number, layer in enumerate(backbone.transformer_layers):
            cached = {"self_attention_cache": cache[number], "self_attention_cache_update_index": start}
            x, updated = layer(x, **cached)
            layers.append(updated)
        hidden = ops.take(backbone.layer_norm(x)[0], last, axis=0)
        logits = backbone.token_embedding(hidden[None, None], reverse=True)[0, 0]
        return ops.cast(logits, "float32"), ops.stack(layers)
