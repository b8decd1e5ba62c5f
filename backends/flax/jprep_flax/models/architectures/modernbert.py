"""ModernBERT: rotary positions, gated feed-forward networks, and local attention in most layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.architectures.rope import Rotation, make_rotation
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
    matmul_weight,
)


class JoinedLinear(nnx.Module):
    """Compute x Wᵀ + b for several layers of the same size at once.

    Args:
        make: creates the weights.
        inputs: width and axis name.
        outputs: width and axis name of each layer.
        parts: number of layers.
        bias: whether there is a bias.
    """

    def __init__(
        self, make: LayerFactory, inputs: tuple[int, str], outputs: tuple[int, str], parts: int, bias: bool
    ) -> None:
        self.weight = make.weight(parts, outputs[0], inputs[0], axes=(None, outputs[1], inputs[1]))
        self.bias = make.weight(parts, outputs[0], axes=(None, outputs[1])) if bias else None

    def __call__(self, x: Array) -> Array:
        """Map (…, inputs) to (…, parts, outputs)."""
        y = matmul_weight(x, self.weight[...], 2)
        return y if self.bias is None else y + self.bias[...].astype(x.dtype)


class ModernBertLayer(nnx.Module):
    """Attention and a gated feed-forward network, each with a norm before it and a residual sum after it.

    Args:
        config: transformers' config.
        make: creates the weights of all layers.
    """

    def __init__(self, config: dict[str, Any], make: LayerFactory) -> None:
        count, bias, mlp_bias = config["num_hidden_layers"], config["attention_bias"], config["mlp_bias"]
        width, heads = (config["hidden_size"], "embed"), (config["hidden_size"], "heads")
        inner = (config["intermediate_size"], "mlp")
        self.attn_norm = make_norm(config, make.stacked(count - 1))  # the first layer has none
        each = make.stacked(count)
        self.attn = ModuleGroup(Wqkv=JoinedLinear(each, width, heads, 3, bias), Wo=Linear(each, heads, width, bias))
        self.mlp_norm = make_norm(config, each)
        self.mlp = ModuleGroup(
            Wi=JoinedLinear(each, width, inner, 2, mlp_bias), Wo=Linear(each, inner, width, mlp_bias)
        )
        self.heads, self.activation = config["num_attention_heads"], config["hidden_activation"]
        self.attention_dropout, self.mlp_dropout = config["attention_dropout"], config["mlp_dropout"]

    def __call__(
        self, x: Array, number: Array, mask: Array, angles: Array, rotation: Rotation, key: Array | None
    ) -> Array:
        """Map x, (rows, length, width), to the input of the next layer.

        Args:
            x: hidden states.
            number: of the layer, from 0.
            mask: true where a token attends to a position, (rows, length or 1, length).
            angles: of the rotations, (rows or none, length, size / 2).
            rotation: rotates by them.
            key: random key of dropout; None drops nothing.
        """
        parts = self.attn.Wqkv(jnp.where(number == 0, x, self.attn_norm(x)))
        query, keys, values = (parts[..., part, :].reshape(*x.shape[:2], self.heads, -1) for part in range(3))
        query, keys = rotation.rotate(query, angles), rotation.rotate(keys, angles)
        y = self.attn.Wo(dot_product_attention(query, keys, values, mask, self.attention_dropout, key))
        x = x + dropout(y, self.attention_dropout, key, 1)
        inner = self.mlp.Wi(self.mlp_norm(x))
        gated = ACTIVATIONS[self.activation](inner[..., 0, :]) * inner[..., 1, :]
        return x + self.mlp.Wo(dropout(gated, self.mlp_dropout, key, 2))


class ModernBert(nnx.Module):
    """ModernBERT without a head: maps ids to hidden states."""

    def __init__(self, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
        width, pad = config["hidden_size"], config["pad_token_id"]
        self.embeddings = ModuleGroup(
            tok_embeddings=EmbeddingTable(make, config["vocab_size"], width, ("vocab", "embed"), pad),
            norm=make_norm(config, make),
        )
        self.layers = ModernBertLayer(config, make)
        self.final_norm = make_norm(config, make)
        size = width // config["num_attention_heads"]
        self.rotations = tuple(make_rotation(size, config[key]) for key in ("global_rope_theta", "local_rope_theta"))
        self.interval, self.reach = config["global_attn_every_n_layers"], config["local_attention"] // 2
        self.dropout_rate, self.remat = config["embedding_dropout"], remat

    @property
    def embedding(self) -> EmbeddingTable:
        """The token embedding."""
        return self.embeddings.tok_embeddings  # type: ignore[no-any-return]

    def __call__(
        self, ids: Array, lengths: Array, types: Array | None, key: Array | None, documents: Array | None = None
    ) -> Array:
        """Return the hidden states of ids, (rows, length, width). Tokens attend to all positions but padding."""
        columns, positions = jnp.arange(ids.shape[1]), row_positions(ids.shape[1], documents)
        everywhere = row_mask(lengths, ids.shape[1], documents, causal=False)
        near = jnp.abs(columns[:, None] - columns) <= self.reach
        angles = [rotation.angles(positions) for rotation in self.rotations]

        def apply(layer: ModernBertLayer, x: Array, key: Array | None, number: Array) -> Array:
            whole = number % self.interval == 0
            own_angles = jnp.where(whole, *angles)
            return layer(x, number, everywhere & (near | whole), own_angles, self.rotations[0], key)

        embedding_key = None if key is None else jax.random.fold_in(key, EMBEDDING_DROPOUT)
        x = dropout(self.embeddings.norm(self.embeddings.tok_embeddings(ids)), self.dropout_rate, embedding_key, 0)
        return self.final_norm(scan_layers(_with_first_norm(self.layers), x, key, apply, self.remat))


def make_norm(config: dict[str, Any], make: LayerFactory) -> LayerNorm:
    """Return a norm of the model's width."""
    return LayerNorm(make, config["hidden_size"], config["norm_eps"], config["norm_bias"])


def _with_first_norm(layers: ModernBertLayer) -> ModernBertLayer:
    """Return layers in which the first one has a norm before attention, too, of zeros, which it does not use."""
    graph, weights = nnx.split(layers)
    flat = {
        path: variable.replace(jnp.pad(variable[...], ((1, 0), (0, 0)))) if path[0] == "attn_norm" else variable
        for path, variable in nnx.to_flat_state(weights)
    }
    whole: ModernBertLayer = nnx.merge(graph, nnx.from_flat_state(flat.items()))
    return whole
