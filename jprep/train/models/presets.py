"""Model families, and presets of published sizes, as values of transformers' configs."""

from __future__ import annotations

from typing import Any, NamedTuple

TransformersConfig = dict[str, Any]
"""A transformers config as plain data."""


class ModelFamily(NamedTuple):
    """A model family.

    Attributes:
        classes: task → transformers' class.
        defaults: every key that may be set, with transformers' default; None if it is derived from other keys.
        positions: the key of the maximum number of positions.
        width: the key of the hidden size.
        heads: the key of the number of attention heads.
    """

    classes: dict[str, str]
    defaults: TransformersConfig
    positions: str = "max_position_embeddings"
    width: str = "hidden_size"
    heads: str = "num_attention_heads"


def _classes(name: str, task: str, kind: str) -> dict[str, str]:
    sequences = f"{name}ForSequenceClassification"
    return {task: f"{name}{kind}", "classify": sequences, "regress": sequences}


_BERT: TransformersConfig = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "classifier_dropout": None,
}

FAMILIES = {
    "gpt2": ModelFamily(
        _classes("GPT2", "clm", "LMHeadModel"),
        {
            "n_positions": 1024,
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_inner": None,
            "activation_function": "gelu_new",
            "resid_pdrop": 0.1,
            "embd_pdrop": 0.1,
            "attn_pdrop": 0.1,
            "layer_norm_epsilon": 1e-5,
            "initializer_range": 0.02,
            "tie_word_embeddings": True,
        },
        positions="n_positions",
        width="n_embd",
        heads="n_head",
    ),
    "bert": ModelFamily(_classes("Bert", "mlm", "ForMaskedLM"), _BERT),
    # The published RoBERTa, and fairseq's, has one token type and another epsilon than transformers' defaults.
    "roberta": ModelFamily(
        _classes("Roberta", "mlm", "ForMaskedLM"),
        _BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "max_position_embeddings": 514},
    ),
    "electra": ModelFamily(
        {"rtd": "ElectraForPreTraining"} | _classes("Electra", "mlm", "ForMaskedLM"),
        _BERT | {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    ),
    "llama": ModelFamily(
        _classes("Llama", "clm", "ForCausalLM"),
        {
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": None,
            "head_dim": None,
            "hidden_act": "silu",
            "max_position_embeddings": 2048,
            "initializer_range": 0.02,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "mlp_bias": False,
            "tie_word_embeddings": False,
        },
    ),
}
"""`model_type` → the model family."""


def _gpt2(width: int, layers: int, heads: int, positions: int = 1024) -> TransformersConfig:
    return {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions}


def _encoder(kind: str, width: int, layers: int, heads: int, **more: Any) -> TransformersConfig:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": kind, **sizes, "intermediate_size": 4 * width} | more


def _llama(width: int, layers: int, heads: int, shared: int, inner: int, **more: Any) -> TransformersConfig:
    sizes = _encoder("llama", width, layers, heads, intermediate_size=inner)
    return sizes | {"num_key_value_heads": shared, "rms_norm_eps": 1e-5} | more


PRESETS: dict[str, TransformersConfig] = {
    "gpt2-tiny": _gpt2(128, 2, 2, 256),
    "gpt2-small": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "bert-tiny": _encoder("bert", 128, 2, 2),
    "bert-small": _encoder("bert", 512, 4, 8),
    "bert-base": _encoder("bert", 768, 12, 12),
    "bert-large": _encoder("bert", 1024, 24, 16),
    "roberta-tiny": _encoder("roberta", 128, 2, 2),
    "roberta-base": _encoder("roberta", 768, 12, 12),
    "roberta-large": _encoder("roberta", 1024, 24, 16),
    "electra-tiny": _encoder("electra", 128, 2, 2, embedding_size=64),
    "electra-small": _encoder("electra", 256, 12, 4, embedding_size=128),
    "electra-base": _encoder("electra", 768, 12, 12, embedding_size=768),
    "electra-large": _encoder("electra", 1024, 24, 16, embedding_size=1024),
    "llama-tiny": _llama(128, 2, 4, 2, 352, tie_word_embeddings=True),
    "llama-160m": _llama(768, 12, 12, 12, 2048),
    "llama-1b": _llama(2048, 22, 32, 4, 5632),
}
"""Name → config, without the values that the tokenizer and the job determine."""
