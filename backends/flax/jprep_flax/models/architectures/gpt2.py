"""GPT-2."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.attention import dot_product_attention, row_mask, row_positions
from jprep_flax.models.dropout import EMBEDDING_DROPOUT, dropout
from jprep_flax.models.layer_scan import AppendToCache, KVCache, scan_layers, scan_layers_with_cache
from jprep_flax.models.layers import ACTIVATIONS, EmbeddingTable, LayerFactory, LayerNorm, ModuleGroup, matmul_weight


class Conv1D(nnx.Module):
    """Compute x W + b. As in transformers, the inputs are the first axis of W.

    Args:
        make: creates the weights.
        inputs: width and axis name.
        outputs: width and axis name of each part.
        parts: number of parts, each of the width of `outputs`: 3 for query, key and value, else 1.
    """

    def __init__(self, make: LayerFactory, inputs: tuple[int, str], outputs: tuple[int, str], parts: int = 1) -> None:
        self.weight = make.weight(inputs[0], parts, outputs[0], axes=(inputs[1], None, outputs[1]))
        self.bias = make.weight(parts, outputs[0], axes=(None, outputs[1]))
        self.dtype = make.dtype

    def __call__(self, x: Array) -> Array:
        """Map (…, inputs) to (…, parts, outputs)."""
        return matmul_weight(x, self.weight[...]) + self.bias[...].astype(x.dtype)


class Gpt2Layer(nnx.Module):
    """Attention and a feed-forward network, each with a norm before it and a residual sum after it."""

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        width, inner, epsilon = config["n_embd"], config["n_inner"], config["layer_norm_epsilon"]
        self.ln_1, self.ln_2 = (LayerNorm(make, width, epsilon) for _ in range(2))
        self.attn = ModuleGroup(
            c_attn=Conv1D(make, (width, "embed"), (width, "heads"), 3),
            c_proj=Conv1D(make, (width, "heads"), (width, "embed")),
        )
        self.mlp = ModuleGroup(
            c_fc=Conv1D(make, (width, "embed"), (inner, "mlp")), c_proj=Conv1D(make, (inner, "mlp"), (width, "embed"))
        )
        self.heads, self.activation = config["n_head"], config["activation_function"]
        self.attention_dropout, self.residual_dropout = config["attn_pdrop"], config["resid_pdrop"]

    def __call__(
        self, x: Array, mask: Array, key: Array | None = None, append_to_cache: AppendToCache | None = None
    ) -> Array:
        """Map x, (rows, length, width), to the input of the next layer."""
        parts = self.attn.c_attn(self.ln_1(x))
        query, keys, values = (parts[..., part, :].reshape(*x.shape[:2], self.heads, -1) for part in range(3))
        if append_to_cache:
            keys, values = append_to_cache(keys, values)
        attended = dot_product_attention(query, keys, values, mask, self.attention_dropout, key)
        x = x + dropout(self.attn.c_proj(attended)[..., 0, :], self.residual_dropout, key, 1)
        inner = ACTIVATIONS[self.activation](self.mlp.c_fc(self.ln_2(x))[..., 0, :])
        return x + dropout(self.mlp.c_proj(inner)[..., 0, :], self.residual_dropout, key, 2)


class GPT2(nnx.Module):
    """GPT-2 without a head: maps ids to hidden states."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width = config["n_embd"]
        self.wte = EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"))
        self.wpe = EmbeddingTable(make, config["n_positions"], width)
        self.h = Gpt2Layer(config, make.stacked(config["n_layer"]))
        self.ln_f = LayerNorm(make, width, config["layer_norm_epsilon"])
        self.dropout_rate, self.remat = config["embd_pdrop"], remat

    @property
    def embedding(self) -> EmbeddingTable:
        """The token embedding."""
        return self.wte  # type: ignore[no-any-return]

    def __call__(
        self, ids: Array, lengths: Array, types: Array | None, key: Array | None, documents: Array | None = None
    ) -> Array:
        """Return the hidden states of ids, (rows, length, width)."""
        length = ids.shape[1]
        embedding_key = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        x = dropout(self.wte(ids) + self.wpe(row_positions(length, documents)), self.dropout_rate, embedding_key, 0)
        mask = row_mask(lengths, length, documents, causal=True)
        return self.ln_f(scan_layers(self.h, x, key, lambda layer, x, key, _: layer(x, mask, key), self.remat))

    def continue_from(self, ids: Array, position: Array, cache: KVCache) -> tuple[Array, KVCache]:
        """Return the hidden states of new ids, (rows, new tokens, width), and the cache with them.

        Args:
            ids: (rows, new tokens).
            position: number of tokens in the cache.
            cache: keys and values of earlier tokens.
        """
        x = self.wte(ids) + self.wpe(position + jnp.arange(ids.shape[1]))
        x, cache = scan_layers_with_cache(
            self.h, x, position, cache, lambda layer, x, mask, append: layer(x, mask, append_to_cache=append)
        )
        return self.ln_f(x), cache
