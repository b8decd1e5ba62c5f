"""Model families, and presets of published sizes, as values of transformers' configs."""

from __future__ import annotations

from typing import Any

from jprep.train.models.model_family import ModelFamily, TransformersConfig
from jprep.train.models.registry import FamilyTable, PresetTable

__all__ = ["FAMILIES", "PRESETS", "ModelFamily", "TransformersConfig"]


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

_LLAMA: TransformersConfig = {
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
    "rope_scaling": None,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}

_QWEN3 = {key: value for key, value in _LLAMA.items() if key != "mlp_bias"} | {
    "intermediate_size": 22016,
    "head_dim": 128,
    "max_position_embeddings": 32768,
}

_QWEN3_MOE = _QWEN3 | {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 24,
    "head_dim": None,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": False,
    "router_aux_loss_coef": 0.001,
}

_ALL_SPARSE = {"decoder_sparse_step": 1, "mlp_only_layers": []}
"""Every layer has experts."""

_MODERNBERT: TransformersConfig = {
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "hidden_activation": "gelu",
    "max_position_embeddings": 8192,
    "initializer_range": 0.02,
    "norm_eps": 1e-5,
    "norm_bias": False,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "global_attn_every_n_layers": 3,
    "local_attention": 128,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "decoder_bias": True,
    "classifier_pooling": "cls",
    "classifier_dropout": 0.0,
    "classifier_bias": False,
    "classifier_activation": "gelu",
}

_DEBERTA: TransformersConfig = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 0,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-7,
    "position_buckets": 256,
    "conv_kernel_size": 0,
    "conv_act": "tanh",
    "pooler_dropout": 0.0,
    "pooler_hidden_act": "gelu",
    "cls_dropout": None,
}

_DEBERTA_FORM = {
    "relative_attention": True,
    "position_biased_input": False,
    "max_relative_positions": -1,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "legacy": True,
}
"""The form of DeBERTa-v3 and of the Japanese models; `legacy` is the head whose output projection is the embedding."""

GPT2 = ModelFamily(
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
)
BERT = ModelFamily(_classes("Bert", "mlm", "ForMaskedLM"), _BERT)
# The published RoBERTa, and fairseq's, has one token type and a different epsilon than transformers' defaults.
ROBERTA = ModelFamily(
    _classes("Roberta", "mlm", "ForMaskedLM"),
    _BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "max_position_embeddings": 514},
)
ELECTRA = ModelFamily(
    {"rtd": "ElectraForPreTraining"} | _classes("Electra", "mlm", "ForMaskedLM"),
    _BERT | {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
)
MODERNBERT = ModelFamily(_classes("ModernBert", "mlm", "ForMaskedLM"), _MODERNBERT)
DEBERTA_V2 = ModelFamily(_classes("DebertaV2", "mlm", "ForMaskedLM"), _DEBERTA, fixed=_DEBERTA_FORM)
LLAMA = ModelFamily(_classes("Llama", "clm", "ForCausalLM"), _LLAMA)
QWEN3 = ModelFamily(_classes("Qwen3", "clm", "ForCausalLM"), _QWEN3)
QWEN3_MOE = ModelFamily(_classes("Qwen3Moe", "clm", "ForCausalLM"), _QWEN3_MOE, fixed=_ALL_SPARSE)

FAMILIES = FamilyTable(
    {
        "gpt2": GPT2,
        "bert": BERT,
        "roberta": ROBERTA,
        "electra": ELECTRA,
        "modernbert": MODERNBERT,
        "deberta-v2": DEBERTA_V2,
        "llama": LLAMA,
        "qwen3": QWEN3,
        "qwen3_moe": QWEN3_MOE,
    }
)
"""`model_type` → the model family."""


def _gpt2(width: int, layers: int, heads: int, positions: int = 1024) -> TransformersConfig:
    return {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions}


def _encoder(kind: str, width: int, layers: int, heads: int, **more: Any) -> TransformersConfig:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": kind, **sizes, "intermediate_size": 4 * width} | more


def _modernbert(width: int, layers: int, heads: int, inner: int, **more: Any) -> TransformersConfig:
    sizes = _encoder("modernbert", width, layers, heads, intermediate_size=inner)
    return sizes | {"classifier_pooling": "mean"} | more


def _llama(width: int, layers: int, heads: int, shared: int, inner: int, **more: Any) -> TransformersConfig:
    sizes = _encoder("llama", width, layers, heads, intermediate_size=inner)
    return sizes | {"num_key_value_heads": shared, "rms_norm_eps": 1e-5} | more


def _qwen3(width: int, layers: int, heads: int, inner: int, **more: Any) -> TransformersConfig:
    sizes = _encoder("qwen3", width, layers, heads, intermediate_size=inner)
    return sizes | {"num_key_value_heads": 8, "rope_theta": 1e6, "tie_word_embeddings": True} | more


def _qwen3_moe(width: int, layers: int, heads: int, inner: int, **more: Any) -> TransformersConfig:
    sizes = _encoder("qwen3_moe", width, layers, heads, intermediate_size=3 * width, moe_intermediate_size=inner)
    return sizes | {"rope_theta": 1e6, "norm_topk_prob": True} | more


_LLAMA31_SCALING = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192}  # fmt: skip
_LLAMA32 = {"rope_theta": 5e5, "rope_scaling": _LLAMA31_SCALING, "max_position_embeddings": 131_072,
            "tie_word_embeddings": True}  # fmt: skip

_BUILT_IN: dict[str, TransformersConfig] = {
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
    "modernbert-tiny": _modernbert(128, 3, 2, 192, max_position_embeddings=512),
    "modernbert-base": _modernbert(768, 22, 12, 1152),
    "modernbert-large": _modernbert(1024, 28, 16, 2624),
    "deberta-v2-tiny": _encoder("deberta-v2", 128, 2, 2),
    "deberta-v2-base": _encoder("deberta-v2", 768, 12, 12),
    "deberta-v2-large": _encoder("deberta-v2", 1024, 24, 16),
    "llama-tiny": _llama(128, 2, 4, 2, 352, tie_word_embeddings=True),
    "llama-160m": _llama(768, 12, 12, 12, 2048),
    "llama-1b": _llama(2048, 22, 32, 4, 5632),
    "llama3-1b": _llama(2048, 16, 32, 8, 8192, **_LLAMA32),
    "llama3-8b": _llama(4096, 32, 32, 8, 14336, rope_theta=5e5, max_position_embeddings=8192),
    "qwen3-tiny": _qwen3(128, 2, 4, 352, num_key_value_heads=2, head_dim=48, max_position_embeddings=2048),
    "qwen3-0.6b": _qwen3(1024, 28, 16, 3072),
    "qwen3-1.7b": _qwen3(2048, 28, 16, 6144),
    "qwen3-4b": _qwen3(2560, 36, 32, 9728),
    "qwen3-moe-tiny": _qwen3_moe(
        128, 2, 4, 96, num_key_value_heads=2, head_dim=48, num_experts=8, num_experts_per_tok=2
    ),
    "qwen3-moe-30b-a3b": _qwen3_moe(2048, 48, 32, 768, num_key_value_heads=4, head_dim=128),
}

PRESETS = PresetTable(_BUILT_IN, FAMILIES)
"""Name → config, without the values that the tokenizer and the job determine."""
