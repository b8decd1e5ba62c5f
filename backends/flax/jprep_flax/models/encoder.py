"""BERT, RoBERTa and ELECTRA."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.attention import dot_product_attention, padding_mask
from jprep_flax.models.layer_scan import scan_layers
from jprep_flax.models.layers import (
    ACTIVATIONS,
    EMBEDDING_DROPOUT,
    EmbeddingTable,
    LayerFactory,
    LayerNorm,
    Linear,
    ModuleGroup,
    dropout,
    set_submodule,
)


class EncoderLayer(nnx.Module):
    """Attention and a feed-forward network; each sum is made a norm of."""

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        width, epsilon = config["hidden_size"], config["layer_norm_eps"]
        outer, heads, inner = (width, "embed"), (width, "heads"), (config["intermediate_size"], "mlp")
        for part in ("query", "key", "value"):
            set_submodule(self, f"attention.self.{part}", Linear(make, outer, heads))
        set_submodule(self, "attention.output.dense", Linear(make, heads, outer))
        set_submodule(self, "attention.output.LayerNorm", LayerNorm(make, width, epsilon))
        self.intermediate = ModuleGroup(dense=Linear(make, outer, inner))
        self.output = ModuleGroup(dense=Linear(make, inner, outer), LayerNorm=LayerNorm(make, width, epsilon))
        self.heads, self.active = config["num_attention_heads"], config["hidden_act"]
        self.shares = config["attention_probs_dropout_prob"], config["hidden_dropout_prob"]

    def __call__(self, x: Array, seen: Array, key: Array | None) -> Array:
        """From x, (rows, length, width), to the next layer's."""
        parts, output = self.attention.self, self.attention.output
        query, keys, values = (
            part(x).reshape(*x.shape[:2], self.heads, -1) for part in (parts.query, parts.key, parts.value)
        )
        found = output.dense(dot_product_attention(query, keys, values, seen, self.shares[0], key))
        x = output.LayerNorm(x + dropout(found, self.shares[1], key, 1))
        found = self.output.dense(ACTIVATIONS[self.active](self.intermediate.dense(x)))
        return self.output.LayerNorm(x + dropout(found, self.shares[1], key, 2))


class Embeddings(nnx.Module):
    """The sum of a token's vectors, made a norm of."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, width: int) -> None:
        pad = config["pad_token_id"]
        self.first = pad if config["model_type"] == "roberta" else None
        self.word_embeddings = EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"), pad)
        self.position_embeddings = EmbeddingTable(make, config["max_position_embeddings"], width, still=self.first)
        self.token_type_embeddings = EmbeddingTable(make, config["type_vocab_size"], width)
        self.LayerNorm = LayerNorm(make, width, config["layer_norm_eps"])

    def __call__(self, ids: Array, types: Array | None) -> Array:
        """Of ids and types (rows, length), where no types are the first for all."""
        types = jnp.zeros_like(ids) if types is None else types
        known = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(known + self.position_embeddings(self._positions(ids)))

    def _positions(self, ids: Array) -> Array:
        if self.first is None:
            return jnp.arange(ids.shape[1])
        counted = ids != self.first  # RoBERTa counts what is not padding
        return jnp.cumsum(counted, axis=1) * counted + self.first


class BertEncoder(nnx.Module):
    """What all tasks share: ids in, a vector for each token out."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width = config["hidden_size"]
        narrow = config.get("embedding_size", width)
        self.embeddings = Embeddings(config, make, narrow)
        if narrow != width:
            self.embeddings_project = Linear(make, (narrow, None), (width, "embed"))
        self.encoder = ModuleGroup(layer=EncoderLayer(config, make.stacked(config["num_hidden_layers"])))
        self.wider, self.share, self.remat = narrow != width, config["hidden_dropout_prob"], remat

    @property
    def table(self) -> EmbeddingTable:
        """The vectors of ids."""
        return self.embeddings.word_embeddings  # type: ignore[no-any-return]

    def __call__(self, ids: Array, lengths: Array, types: Array | None, key: Array | None) -> Array:
        """A token sees what is not padding."""
        outside = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        x = dropout(self.embeddings(ids, types), self.share, outside, 0)
        x = self.embeddings_project(x) if self.wider else x
        seen = padding_mask(lengths, ids.shape[1])
        return scan_layers(self.encoder.layer, x, key, lambda layer, x, key: layer(x, seen, key), self.remat)
