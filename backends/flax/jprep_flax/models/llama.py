"""Llama."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.attention import causal_mask, dot_product_attention
from jprep_flax.models.layer_scan import AppendToCache, KVCache, scan_layers, scan_layers_with_cache
from jprep_flax.models.layers import ACTIVATIONS, EmbeddingTable, LayerFactory, Linear, ModuleGroup, RMSNorm


class LlamaLayer(nnx.Module):
    """Attention and a gated feed-forward network, each added to what it takes."""

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        self.heads, self.shared = config["num_attention_heads"], config["num_key_value_heads"]
        self.active, self.share = config["hidden_act"], config["attention_dropout"]
        width, inner, epsilon = (config["hidden_size"], "embed"), (config["intermediate_size"], "mlp"), "rms_norm_eps"
        queries, keys = ((heads * config["head_dim"], "heads") for heads in (self.heads, self.shared))
        bias, inner_bias = config["attention_bias"], config["mlp_bias"]
        self.input_layernorm, self.post_attention_layernorm = (
            RMSNorm(make, width[0], config[epsilon]) for _ in range(2)
        )
        self.self_attn = ModuleGroup(
            q_proj=Linear(make, width, queries, bias),
            k_proj=Linear(make, width, keys, bias),
            v_proj=Linear(make, width, keys, bias),
            o_proj=Linear(make, queries, width, bias),
        )
        self.mlp = ModuleGroup(
            gate_proj=Linear(make, width, inner, inner_bias),
            up_proj=Linear(make, width, inner, inner_bias),
            down_proj=Linear(make, inner, width, inner_bias),
        )

    def __call__(
        self, x: Array, seen: Array, angles: Array, key: Array | None = None, remember: AppendToCache | None = None
    ) -> Array:
        """From x, (rows, length, width), to the next layer's; `remember` adds keys and values of earlier tokens."""
        found, attention = self.input_layernorm(x), self.self_attn
        query = apply_rotary(_split(attention.q_proj(found), self.heads), angles)
        keys = apply_rotary(_split(attention.k_proj(found), self.shared), angles)
        values = _split(attention.v_proj(found), self.shared)
        if remember:
            keys, values = remember(keys, values)
        x = x + attention.o_proj(dot_product_attention(query, keys, values, seen, self.share, key))
        found, mlp = self.post_attention_layernorm(x), self.mlp
        return x + mlp.down_proj(ACTIVATIONS[self.active](mlp.gate_proj(found)) * mlp.up_proj(found))


class Llama(nnx.Module):
    """What all tasks share: ids in, a vector for each token out."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width = config["hidden_size"]
        self.embed_tokens = EmbeddingTable(
            make, config["vocab_size"], width, ("vocab", "embed"), config["pad_token_id"]
        )
        self.layers = LlamaLayer(config, make.stacked(config["num_hidden_layers"]))
        self.norm = RMSNorm(make, width, config["rms_norm_eps"])
        self.size, self.base, self.remat = config["head_dim"], config["rope_theta"], remat

    @property
    def table(self) -> EmbeddingTable:
        """The vectors of ids."""
        return self.embed_tokens  # type: ignore[no-any-return]

    def __call__(self, ids: Array, lengths: Array, types: Array | None, key: Array | None) -> Array:
        """Padding stands behind, where nobody looks."""
        seen, angles = causal_mask(ids.shape[1]), rotary_angles(jnp.arange(ids.shape[1]), self.size, self.base)
        step = lambda layer, x, key: layer(x, seen, angles, key)  # noqa: E731
        return self.norm(scan_layers(self.layers, self.embed_tokens(ids), key, step, self.remat))

    def go_on(self, ids: Array, place: Array, cache: KVCache) -> tuple[Array, KVCache]:
        """Some more tokens, and what is then remembered."""
        angles = rotary_angles(place + jnp.arange(ids.shape[1]), self.size, self.base)
        step = lambda layer, x, seen, remember: layer(x, seen, angles, remember=remember)  # noqa: E731
        x, cache = scan_layers_with_cache(self.layers, self.embed_tokens(ids), place, cache, step)
        return self.norm(x), cache


def rotary_angles(positions: Array, size: int, base: float) -> Array:
    """By which angles a head's pairs of numbers are turned, (length, size / 2)."""
    return positions[:, None] / base ** (jnp.arange(0, size, 2, dtype=jnp.float32) / size)


def apply_rotary(x: Array, angles: Array) -> Array:
    """Turn pairs, one of each half, of (rows, length, heads, size)."""
    cos, sin = (of(angles)[:, None].astype(x.dtype) for of in (jnp.cos, jnp.sin))
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _split(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1)
