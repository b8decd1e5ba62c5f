"""Rows of several documents, whose tokens do not see each other.

KerasHub's backbones take a mask of padding only, and count positions from the first token of a row. Their layers take
masks and positions of every token: they are called here as the backbone calls them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from jprep_keras.models.heads import CAUSAL

if TYPE_CHECKING:
    from jprep_keras.models.model_with_loss import ModelInputs


def document_states(backbone: keras.Model, model_type: str, inputs: ModelInputs, *, training: bool) -> Any:
    """Return the hidden states of all tokens, (rows, length, width).

    Args:
        backbone: KerasHub's model without a head.
        model_type: that of transformers.
        inputs: rows with the documents of their tokens.
        training: whether dropout drops.
    """
    own = inputs.documents[:, :, None] == inputs.documents[:, None]  # of padding too, so that no token sees nothing
    positions = ops.sum(ops.tril(ops.cast(own, "int32")), axis=-1) - 1  # the tokens of a document are contiguous
    x = _embeddings(backbone, model_type, inputs, positions, training=training)
    causal = model_type in CAUSAL
    mask = {"decoder_attention_mask" if causal else "attention_mask": own}
    with _rotation_by(positions, backbone) if model_type == "llama" else contextlib.nullcontext():
        for layer in backbone.transformer_layers:
            x = layer(x, training=training, **mask)
    return backbone.layer_norm(x) if causal else x


def _embeddings(backbone: Any, model_type: str, inputs: ModelInputs, positions: Any, *, training: bool) -> Any:
    """Return what the first layer takes, (rows, length, width)."""
    if model_type == "llama":
        return backbone.token_embedding(inputs.ids)
    if model_type == "roberta":
        x = backbone.embeddings(inputs.ids, positions=positions)
    else:
        tokens = backbone.token_embedding(inputs.ids)
        x = tokens + backbone.position_embedding(tokens, positions=positions)
    if model_type in ("bert", "electra"):
        x = x + backbone.segment_embedding(inputs.types)
    if model_type not in CAUSAL:
        x = backbone.embeddings_layer_norm(x)
    x = backbone.embeddings_dropout(x, training=training)
    return backbone.embeddings_projection(x) if hasattr(backbone, "embeddings_projection") else x


@contextlib.contextmanager
def _rotation_by(positions: Any, backbone: Any) -> Iterator[None]:
    """Let Llama's attention rotate queries and keys by these positions: it passes none on to its rotary embedding."""
    attentions = [layer._self_attention_layer for layer in backbone.transformer_layers]
    rotations = [attention.rotary_embedding_layer for attention in attentions]
    for attention, rotation in zip(attentions, rotations, strict=True):
        attention.rotary_embedding_layer = partial(rotation, positions=positions)
    try:
        yield
    finally:
        for attention, rotation in zip(attentions, rotations, strict=True):
            attention.rotary_embedding_layer = rotation
