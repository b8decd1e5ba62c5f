"""GPT-2."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.attention import causal_mask, dot_product_attention
from jprep_flax.models.layer_scan import AppendToCache, KVCache, scan_layers, scan_layers_with_cache
from jprep_flax.models.layers import (
    ACTIVATIONS,
    EMBEDDING_DROPOUT,
    EmbeddingTable,
    LayerFactory,
    LayerNorm,
    ModuleGroup,
    dropout,
    matmul_weight,
)


class Conv1D(nnx.Module):
    """x W + b: transformers has the inputs first here.

    Args:
        make: makes its weights.
        inputs: how many numbers, and the name of their axis.
        outputs: the same; `parts` times as many come out, each part on an axis of its own.
        parts: query, key and value, or 1.
    """

    def __init__(self, make: LayerFactory, inputs: tuple[int, str], outputs: tuple[int, str], parts: int = 1) -> None:
        self.weight = make.weight(inputs[0], parts, outputs[0], axes=(inputs[1], None, outputs[1]))
        self.bias = make.weight(parts, outputs[0], axes=(None, outputs[1]))
        self.dtype = make.dtype

    def __call__(self, x: Array) -> Array:
        """Of (…, inputs), (…, parts, outputs)."""
        return matmul_weight(x, self.weight[...]) + self.bias[...].astype(x.dtype)


class Gpt2Layer(nnx.Module):
    """Attention and a feed-forward network, each added to what it takes."""

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
        self.heads, self.active = config["n_head"], config["activation_function"]
        self.shares = config["attn_pdrop"], config["resid_pdrop"]

    def __call__(self, x: Array, seen: Array, key: Array | None = None, remember: AppendToCache | None = None) -> Array:
        """From x, (rows, length, width), to the next layer's; `remember` adds keys and values of earlier tokens."""
        three = self.attn.c_attn(self.ln_1(x))
        query, keys, values = (three[..., part, :].reshape(*x.shape[:2], self.heads, -1) for part in range(3))
        if remember:
            keys, values = remember(keys, values)
        found = self.attn.c_proj(dot_product_attention(query, keys, values, seen, self.shares[0], key))[..., 0, :]
        x = x + dropout(found, self.shares[1], key, 1)
        inner = ACTIVATIONS[self.active](self.mlp.c_fc(self.ln_2(x))[..., 0, :])
        return x + dropout(self.mlp.c_proj(inner)[..., 0, :], self.shares[1], key, 2)


class GPT2(nnx.Module):
    """What all tasks share: ids in, a vector for each token out."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width = config["n_embd"]
        self.wte = EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"))
        self.wpe = EmbeddingTable(make, config["n_positions"], width)
        self.h = Gpt2Layer(config, make.stacked(config["n_layer"]))
        self.ln_f = LayerNorm(make, width, config["layer_norm_epsilon"])
        self.share, self.remat = config["embd_pdrop"], remat

    @property
    def table(self) -> EmbeddingTable:
        """The vectors of ids."""
        return self.wte  # type: ignore[no-any-return]

    def __call__(self, ids: Array, lengths: Array, types: Array | None, key: Array | None) -> Array:
        """Padding stands behind, where nobody looks."""
        length = ids.shape[1]
        outside = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        x = dropout(self.wte(ids) + self.wpe(jnp.arange(length)), self.share, outside, 0)
        seen = causal_mask(length)
        return self.ln_f(scan_layers(self.h, x, key, lambda layer, x, key: layer(x, seen, key), self.remat))

    def go_on(self, ids: Array, place: Array, cache: KVCache) -> tuple[Array, KVCache]:
        """Some more tokens, and what is then remembered."""
        x = self.wte(ids) + self.wpe(place + jnp.arange(ids.shape[1]))
        x, cache = scan_layers_with_cache(
            self.h, x, place, cache, lambda layer, x, seen, remember: layer(x, seen, remember=remember)
        )
        return self.ln_f(x), cache
