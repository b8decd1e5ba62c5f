"""KerasHub's backbones, built from transformers' configs.

KerasHub fixes some values by the model: the activation, the ε of norms, one dropout rate. The config's are set on the
layers after they were built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import keras_hub

from jprep.train.models import FAMILIES, max_positions
from jprep.train.models.model_family import layer_count

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": partial(keras.ops.gelu, approximate=False),
    "gelu_new": partial(keras.ops.gelu, approximate=True),
    "relu": keras.ops.relu,
    "silu": keras.ops.silu,
}

_ANY_RATE = 0.5  # layers of rate 0 get no random generator: the rate is set afterwards


def build_backbone(config: dict[str, Any], dtype: str) -> keras.Model:
    """Return KerasHub's model without a head. Its weights are random.

    Args:
        config: transformers' config.
        dtype: Keras's policy, such as `float32` or `mixed_bfloat16`.
    """
    model_type = config["model_type"]
    builders = {"gpt2": _gpt2, "llama": _llama, "bert": _bert, "roberta": _roberta, "electra": _electra}
    return builders[model_type](config, dtype)


def _sizes(config: dict[str, Any], *rates: str) -> dict[str, Any]:
    """Return the arguments that all of KerasHub's backbones have."""
    family = FAMILIES[config["model_type"]]
    dropout = _ANY_RATE if any(config[rate] for rate in rates) else 0.0
    inner = config.get("n_inner") or config["intermediate_size"]
    layers = layer_count(config)
    return {"num_layers": layers, "hidden_dim": config[family.width], "intermediate_dim": inner, "dropout": dropout}


def _gpt2(config: dict[str, Any], dtype: str) -> keras.Model:
    embedding, attention, hidden = rates = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=config["vocab_size"],
        num_heads=config["n_head"],
        max_sequence_length=config["n_positions"],
        dtype=dtype,
        **_sizes(config, *rates),
    )
    _set_values(backbone, config, "layer_norm_epsilon", "activation_function", embedding, attention, hidden)
    backbone.layer_norm.epsilon = config["layer_norm_epsilon"]
    return backbone


def _llama(config: dict[str, Any], dtype: str) -> keras.Model:
    backbone = keras_hub.models.LlamaBackbone(
        vocabulary_size=config["vocab_size"],
        num_query_heads=config["num_attention_heads"],
        num_key_value_heads=config["num_key_value_heads"],
        rope_max_wavelength=config["rope_theta"],
        layer_norm_epsilon=config["rms_norm_eps"],
        tie_word_embeddings=config["tie_word_embeddings"],
        dtype=dtype,
        **_sizes(config),
    )
    for layer in backbone.transformer_layers:
        layer.activation = ACTIVATIONS[config["hidden_act"]]
    return backbone


def _encoder(kind: type[Any], config: dict[str, Any], dtype: str, **more: Any) -> keras.Model:
    hidden, attention = rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    backbone = kind(
        num_heads=config["num_attention_heads"],
        max_sequence_length=max_positions(config),
        dtype=dtype,
        **_sizes(config, *rates),
        **more,
    )
    _set_values(backbone, config, "layer_norm_eps", "hidden_act", hidden, attention, hidden)
    backbone.embeddings_layer_norm.epsilon = config["layer_norm_eps"]
    return backbone


def _bert(config: dict[str, Any], dtype: str) -> keras.Model:
    more = {"vocabulary_size": config["vocab_size"], "num_segments": config["type_vocab_size"]}
    return _encoder(keras_hub.models.BertBackbone, config, dtype, **more)


def _roberta(config: dict[str, Any], dtype: str) -> keras.Model:
    return _encoder(keras_hub.models.RobertaBackbone, config, dtype, vocabulary_size=config["vocab_size"])


def _electra(config: dict[str, Any], dtype: str) -> keras.Model:
    more = {"vocab_size": config["vocab_size"], "num_segments": config["type_vocab_size"]}
    return _encoder(keras_hub.models.ElectraBackbone, config, dtype, embedding_dim=config["embedding_size"], **more)


def _set_values(
    backbone: keras.Model,
    config: dict[str, Any],
    epsilon: str,
    activation: str,
    embedding: str,
    attention: str,
    hidden: str,
) -> None:
    """Set the values of a config on the layers, by the keys of the config."""
    backbone.embeddings_dropout.rate = config[embedding]
    for layer in backbone.transformer_layers:
        layer._feedforward_intermediate_dense.activation = ACTIVATIONS[config[activation]]
        layer._self_attention_layer._dropout = config[attention]
        for dropout, rate in _dropouts(layer, config[attention], config[hidden]):
            dropout.rate = rate
        for norm in (layer._self_attention_layer_norm, layer._feedforward_layer_norm):
            norm.epsilon = config[epsilon]


def _dropouts(layer: Any, attention: float, hidden: float) -> Iterator[tuple[Any, float]]:
    """Yield the dropout layers of a transformer layer, with their rates."""
    yield layer._self_attention_dropout, hidden
    yield layer._feedforward_dropout, hidden
    if hasattr(layer._self_attention_layer, "_dropout_layer"):
        yield layer._self_attention_layer._dropout_layer, attention
