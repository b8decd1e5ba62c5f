"""BERT, RoBERTa and ELECTRA."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.attention import dot_product_attention, row_mask, row_positions
from jprep_flax.models.dropout import EMBEDDING_DROPOUT, dropout
from jprep_flax.models.layer_scan import scan_layers
from jprep_flax.models.layers import (
    ACTIVATIONS,
    EmbeddingTable,
    LayerFactory,
    LayerNorm,
    Linear,
    ModuleGroup,
    set_submodule,
)


class EncoderLayer(nnx.Module):
    """Attention and a feed-forward network, with a norm after each residual sum."""

    projections = ("query", "key", "value")

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        width, epsilon = config["hidden_size"], config["layer_norm_eps"]
        outer, heads, inner = (width, "embed"), (width, "heads"), (config["intermediate_size"], "mlp")
        for name in self.projections:
            set_submodule(self, f"attention.self.{name}", Linear(make, outer, heads))
        set_submodule(self, "attention.output.dense", Linear(make, heads, outer))
        set_submodule(self, "attention.output.LayerNorm", LayerNorm(make, width, epsilon))
        self.intermediate = ModuleGroup(dense=Linear(make, outer, inner))
        self.output = ModuleGroup(dense=Linear(make, inner, outer), LayerNorm=LayerNorm(make, width, epsilon))
        self.heads, self.activation = config["num_attention_heads"], config["hidden_act"]
        self.attention_dropout = config["attention_probs_dropout_prob"]
        self.hidden_dropout = config["hidden_dropout_prob"]

    def __call__(self, x: Array, mask: Array, key: Array | None) -> Array:
        """Map x, (rows, length, width), to the input of the next layer."""
        query, keys, values = self.project(x)
        attended = dot_product_attention(query, keys, values, mask, self.attention_dropout, key)
        return self.feed_forward(x, attended, key)

    def project(self, x: Array) -> tuple[Array, ...]:
        """Return queries, keys and values, each (rows, length, heads, size)."""
        return tuple(self.by_head(getattr(self.attention.self, name)(x)) for name in self.projections)

    def by_head(self, x: Array) -> Array:
        """Divide the last axis among the heads."""
        return x.reshape(*x.shape[:-1], self.heads, -1)

    def feed_forward(self, x: Array, attended: Array, key: Array | None) -> Array:
        """Return the layer's output from its input and what that attends to, both (rows, length, width)."""
        y = self.attention.output.dense(attended)
        x = self.attention.output.LayerNorm(x + dropout(y, self.hidden_dropout, key, 1))
        y = self.output.dense(ACTIVATIONS[self.activation](self.intermediate.dense(x)))
        return self.output.LayerNorm(x + dropout(y, self.hidden_dropout, key, 2))


class Embeddings(nnx.Module):
    """The sum of the embeddings of token, position and token type, normalized."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, width: int) -> None:
        pad = config["pad_token_id"]
        self.first = pad if config["model_type"] == "roberta" else None
        self.word_embeddings = EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"), pad)
        self.position_embeddings = EmbeddingTable(make, config["max_position_embeddings"], width, padding_id=self.first)
        self.token_type_embeddings = EmbeddingTable(make, config["type_vocab_size"], width)
        self.LayerNorm = LayerNorm(make, width, config["layer_norm_eps"])

    def __call__(self, ids: Array, types: Array | None, documents: Array | None) -> Array:
        """Embed ids, (rows, length). Without token types all tokens are of type 0."""
        types = jnp.zeros_like(ids) if types is None else types
        tokens = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(tokens + self.position_embeddings(self._positions(ids, documents)))

    def _positions(self, ids: Array, documents: Array | None) -> Array:
        if self.first is None or documents is not None:
            return row_positions(ids.shape[1], documents) + (0 if self.first is None else self.first + 1)
        counted = ids != self.first  # RoBERTa numbers tokens that are not padding, from the padding id + 1
        return jnp.cumsum(counted, axis=1) * counted + self.first


class BertEncoder(nnx.Module):
    """BERT, RoBERTa or ELECTRA without a head: maps ids to hidden states.

    Args:
        config: transformers' config.
        make: creates the weights.
        remat: whether to recompute the activations of each layer in the backward pass.
        shares_embeddings: whether the embeddings are another model's, given with each call.
    """

    def __init__(
        self, config: dict[str, Any], make: LayerFactory, remat: bool, *, shares_embeddings: bool = False
    ) -> None:
        width = config["hidden_size"]
        embedding_width = config.get("embedding_size", width)
        if not shares_embeddings:
            self.embeddings = Embeddings(config, make, embedding_width)
        if embedding_width != width:
            self.embeddings_project = Linear(make, (embedding_width, None), (width, "embed"))
        self.encoder = ModuleGroup(layer=EncoderLayer(config, make.stacked(config["num_hidden_layers"])))
        self.projects, self.dropout_rate = embedding_width != width, config["hidden_dropout_prob"]
        self.remat = remat

    @property
    def embedding(self) -> EmbeddingTable:
        """The token embedding."""
        return self.embeddings.word_embeddings  # type: ignore[no-any-return]

    def __call__(
        self,
        ids: Array,
        lengths: Array,
        types: Array | None,
        key: Array | None,
        documents: Array | None = None,
        embeddings: Embeddings | None = None,
    ) -> Array:
        """Return the hidden states of ids, (rows, length, width)."""
        embed: Embeddings = self.embeddings if embeddings is None else embeddings
        embedding_key = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        x = dropout(embed(ids, types, documents), self.dropout_rate, embedding_key, 0)
        x = self.embeddings_project(x) if self.projects else x
        mask = row_mask(lengths, ids.shape[1], documents, causal=False)
        return scan_layers(self.encoder.layer, x, key, lambda layer, x, key, _: layer(x, mask, key), self.remat)
