"""DeBERTa-v2 in the form of DeBERTa-v3: attention to distances, by content and by position."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax import Array, lax

from jprep_flax.models.architectures.encoder import EncoderLayer
from jprep_flax.models.attention import padding_mask
from jprep_flax.models.dropout import EMBEDDING_DROPOUT, dropout
from jprep_flax.models.layer_scan import scan_layers
from jprep_flax.models.layers import ACTIVATIONS, EmbeddingTable, LayerFactory, LayerNorm, ModuleGroup

_TERMS = 3  # content to content, content to position and position to content: their sum is scaled as one


class DebertaLayer(EncoderLayer):
    """Disentangled attention and a feed-forward network, with a norm after each residual sum."""

    projections = ("query_proj", "key_proj", "value_proj")

    def __call__(  # type: ignore[override]  # DeBERTa's layers share the embeddings of distances
        self, x: Array, mask: Array, distances: Array, buckets: Array, key: Array | None
    ) -> Array:
        """Map x, (rows, length, width), to the input of the next layer.

        Args:
            x: hidden states.
            mask: true where a token attends to a position, (rows, length or 1, length).
            distances: embeddings of the buckets, (buckets, width).
            buckets: the bucket of each distance of two tokens, (length, length).
            key: random key of dropout; None drops nothing.
        """
        return self.feed_forward(x, self._attend(x, mask, distances, buckets, key), key)

    def _attend(self, x: Array, mask: Array, distances: Array, buckets: Array, key: Array | None) -> Array:
        """Return the sum of the values that each token attends to, (rows, length, width)."""
        part, distances = self.attention.self, dropout(distances, self.hidden_dropout, key, 4)
        query, keys, values = self.project(x)
        to_position, from_position = self.by_head(part.key_proj(distances)), self.by_head(part.query_proj(distances))
        scores = jnp.einsum("rqhs,rkhs->rhqk", query, keys)
        scores += _look_up(jnp.einsum("rqhs,bhs->rhqb", query, to_position), buckets)
        scores += _look_up(jnp.einsum("rkhs,bhs->rhkb", keys, from_position), buckets.T).swapaxes(-1, -2)
        scores = (scores / math.sqrt(_TERMS * query.shape[-1])).astype(jnp.float32)
        scores = jnp.where(mask[:, None], scores, jnp.finfo(jnp.float32).min)
        probabilities = dropout(jax.nn.softmax(scores).astype(x.dtype), self.attention_dropout, key, 0)
        return jnp.einsum("rhqk,rkhs->rqhs", probabilities, values).reshape(x.shape)


class Convolution(nnx.Module):
    """A convolution over neighbouring embeddings, whose result is added to that of the first layer."""

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        width, kernel = config["hidden_size"], config["conv_kernel_size"]
        weight, bias = make.weight(width, width, kernel, axes=(None, "embed", None)), make.weight(width, axes=(None,))
        self.conv = ModuleGroup()
        self.conv.weight, self.conv.bias = weight, bias
        self.LayerNorm = LayerNorm(make, width, config["layer_norm_eps"])
        self.kernel, self.activation = kernel, config["conv_act"]
        self.dropout_rate = config["hidden_dropout_prob"]

    def __call__(self, embeddings: Array, x: Array, real: Array, key: Array | None) -> Array:
        """Add to x, (rows, length, width), what the convolution makes of embeddings of the same shape.

        Args:
            embeddings: the input of the first layer; 0 at padding.
            x: its output.
            real: whether a position is not padding, (rows, length, 1).
            key: random key of dropout; None drops nothing.
        """
        near = (self.kernel - 1) // 2
        y = lax.conv_general_dilated(
            embeddings,
            self.conv.weight[...].astype(x.dtype),
            window_strides=(1,),
            padding=[(near, near)],
            dimension_numbers=("NWC", "OIW", "NWC"),
        )
        y = jnp.where(real, y + self.conv.bias[...].astype(x.dtype), 0)
        y = dropout(y, self.dropout_rate, key, 3)
        y = jnp.tanh(y) if self.activation == "tanh" else ACTIVATIONS[self.activation](y)
        return self.LayerNorm(x + y) * real


class Deberta(nnx.Module):
    """DeBERTa-v2 without a head: maps ids to hidden states.

    Args:
        config: transformers' config.
        make: creates the weights.
        remat: whether to recompute the activations of each layer in the backward pass.
    """

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width, epsilon, pad = config["hidden_size"], config["layer_norm_eps"], config["pad_token_id"]
        self.embeddings = ModuleGroup(
            word_embeddings=EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"), pad),
            LayerNorm=LayerNorm(make, width, epsilon),
        )
        if config["type_vocab_size"]:
            self.embeddings.token_type_embeddings = EmbeddingTable(make, config["type_vocab_size"], width)
        self.encoder = ModuleGroup(
            layer=DebertaLayer(config, make.stacked(config["num_hidden_layers"])),
            rel_embeddings=EmbeddingTable(make, 2 * config["position_buckets"], width),
            LayerNorm=LayerNorm(make, width, epsilon),
        )
        if config["conv_kernel_size"]:
            self.encoder.conv = Convolution(config, make)
        self.buckets, self.farthest = config["position_buckets"], config["max_position_embeddings"]
        self.convolves, self.typed = bool(config["conv_kernel_size"]), bool(config["type_vocab_size"])
        self.dropout_rate, self.remat = config["hidden_dropout_prob"], remat

    @property
    def embedding(self) -> EmbeddingTable:
        """The token embedding."""
        return self.embeddings.word_embeddings  # type: ignore[no-any-return]

    def __call__(
        self, ids: Array, lengths: Array, types: Array | None, key: Array | None, documents: Array | None = None
    ) -> Array:
        """Return the hidden states of ids, (rows, length, width). Documents are refused when a job is built."""
        length = ids.shape[1]
        mask = padding_mask(lengths, length)
        real = mask.swapaxes(1, 2).astype(self.embeddings.word_embeddings.dtype)
        embedded = self._embed(ids, types, real, key)
        buckets = jnp.asarray(distance_buckets(length, self.buckets, self.farthest))
        distances = self.encoder.LayerNorm(self.encoder.rel_embeddings.weight[...]).astype(embedded.dtype)

        def apply(layer: DebertaLayer, x: Array, key: Array | None, number: Array) -> Array:
            y = layer(x, mask, distances, buckets, key)
            if not self.convolves:
                return y
            return lax.cond(number == 0, lambda: self.encoder.conv(embedded, y, real, key), lambda: y)

        return scan_layers(self.encoder.layer, embedded, key, apply, self.remat)

    def _embed(self, ids: Array, types: Array | None, real: Array, key: Array | None) -> Array:
        x = self.embeddings.word_embeddings(ids)
        if self.typed:
            x = x + self.embeddings.token_type_embeddings(jnp.zeros_like(ids) if types is None else types)
        embedding_key = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        return dropout(self.embeddings.LayerNorm(x) * real, self.dropout_rate, embedding_key, 0)


def distance_buckets(length: int, buckets: int, farthest: int) -> npt.NDArray[np.int32]:
    """Return the bucket of the distance of each two tokens, (length, length): one each up to half of them, then wider.

    Args:
        length: tokens of a row.
        buckets: number of buckets on each side.
        farthest: the distance from which on all are in the last bucket.
    """
    distance = np.arange(length)[:, None] - np.arange(length)
    middle = buckets // 2
    far = np.maximum(np.abs(distance), middle)
    spread = np.log(far / middle) / np.log((farthest - 1) / middle) * (middle - 1)
    wide = np.sign(distance) * (np.ceil(spread) + middle)
    found = np.where(np.abs(distance) <= middle, distance, wide)
    return np.clip(found + buckets, 0, 2 * buckets - 1).astype(np.int32)


def _look_up(scores: Array, buckets: Array) -> Array:
    """Return the score of each two tokens from those of each token and bucket, (rows, heads, length, length)."""
    return jnp.take_along_axis(scores, buckets[None, None], axis=-1)
