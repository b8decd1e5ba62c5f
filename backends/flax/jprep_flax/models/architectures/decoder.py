"""Decoders with rotary positions: Llama, and Qwen3, which normalizes queries and keys."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.architectures.rope import Rotation, make_rotation
from jprep_flax.models.attention import dot_product_attention, row_mask, row_positions
from jprep_flax.models.layer_scan import AppendToCache, KVCache, scan_layers, scan_layers_with_cache
from jprep_flax.models.layers import ACTIVATIONS, EmbeddingTable, LayerFactory, Linear, ModuleGroup, RMSNorm


class DecoderLayer(nnx.Module):
    """Attention and a gated feed-forward network, each with a norm before it and a residual sum after it."""

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.activation, self.attention_dropout = config["hidden_act"], config["attention_dropout"]
        self.rotation = _rotation(config)
        width, inner = (config["hidden_size"], "embed"), (config["intermediate_size"], "mlp")
        queries, keys = ((heads * config["head_dim"], "heads") for heads in (self.heads, self.kv_heads))
        bias, mlp_bias = config["attention_bias"], config.get("mlp_bias", False)
        self.input_layernorm, self.post_attention_layernorm = (
            RMSNorm(make, width[0], config["rms_norm_eps"]) for _ in range(2)
        )
        self.self_attn = ModuleGroup(
            q_proj=Linear(make, width, queries, bias),
            k_proj=Linear(make, width, keys, bias),
            v_proj=Linear(make, width, keys, bias),
            o_proj=Linear(make, queries, width, bias),
        )
        self.normalizes = config["model_type"] != "llama"
        if self.normalizes:
            for name in ("q_norm", "k_norm"):
                norm = RMSNorm(make, config["head_dim"], config["rms_norm_eps"], axis=None)
                setattr(self.self_attn, name, norm)
        self.mlp = ModuleGroup(
            gate_proj=Linear(make, width, inner, mlp_bias),
            up_proj=Linear(make, width, inner, mlp_bias),
            down_proj=Linear(make, inner, width, mlp_bias),
        )

    def __call__(
        self,
        x: Array,
        mask: Array,
        angles: Array,
        key: Array | None = None,
        append_to_cache: AppendToCache | None = None,
    ) -> Array:
        """Map x, (rows, length, width), to the input of the next layer."""
        y, attention = self.input_layernorm(x), self.self_attn
        query, keys = _split_heads(attention.q_proj(y), self.heads), _split_heads(attention.k_proj(y), self.kv_heads)
        if self.normalizes:
            query, keys = attention.q_norm(query), attention.k_norm(keys)
        query, keys = self.rotation.rotate(query, angles), self.rotation.rotate(keys, angles)
        values = _split_heads(attention.v_proj(y), self.kv_heads)
        if append_to_cache:
            keys, values = append_to_cache(keys, values)
        x = x + attention.o_proj(dot_product_attention(query, keys, values, mask, self.attention_dropout, key))
        y, mlp = self.post_attention_layernorm(x), self.mlp
        return x + mlp.down_proj(ACTIVATIONS[self.activation](mlp.gate_proj(y)) * mlp.up_proj(y))


class Decoder(nnx.Module):
    """Llama or Qwen3 without a head: maps ids to hidden states."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width = config["hidden_size"]
        self.embed_tokens = EmbeddingTable(
            make, config["vocab_size"], width, ("vocab", "embed"), config["pad_token_id"]
        )
        self.layers = DecoderLayer(config, make.stacked(config["num_hidden_layers"]))
        self.norm = RMSNorm(make, width, config["rms_norm_eps"])
        self.rotation, self.remat = _rotation(config), remat

    @property
    def embedding(self) -> EmbeddingTable:
        """The token embedding."""
        return self.embed_tokens  # type: ignore[no-any-return]

    def __call__(
        self, ids: Array, lengths: Array, types: Array | None, key: Array | None, documents: Array | None = None
    ) -> Array:
        """Return the hidden states of ids, (rows, length, width)."""
        length = ids.shape[1]
        mask = row_mask(lengths, length, documents, causal=True)
        angles = self.rotation.angles(row_positions(length, documents))
        apply = lambda layer, x, key, _: layer(x, mask, angles, key)  # noqa: E731
        return self.norm(scan_layers(self.layers, self.embed_tokens(ids), key, apply, self.remat))

    def continue_from(self, ids: Array, position: Array, cache: KVCache) -> tuple[Array, KVCache]:
        """Return the hidden states of new ids, (rows, new tokens, width), and the cache with them.

        Args:
            ids: (rows, new tokens).
            position: number of tokens in the cache.
            cache: keys and values of earlier tokens.
        """
        angles = self.rotation.angles(position + jnp.arange(ids.shape[1]))
        apply = lambda layer, x, mask, append: layer(x, mask, angles, append_to_cache=append)  # noqa: E731
        x, cache = scan_layers_with_cache(self.layers, self.embed_tokens(ids), position, cache, apply)
        return self.norm(x), cache


def _rotation(config: dict[str, Any]) -> Rotation:
    return make_rotation(config["head_dim"], config["rope_theta"], config.get("rope_scaling"))


def _split_heads(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1)
