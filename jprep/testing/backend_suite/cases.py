"""The jobs that the suite trains, and their golden loss curves."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from jprep.typed_json import decode_json

GOLDEN = "golden.json"

STEPS = 50
"""The steps of every case. It validates halfway and at the end, and saves after step `SAVED` and at the end."""

SAVED = 30


class Case(NamedTuple):
    """A job of the suite.

    Attributes:
        special: the set of special tokens.
        section: its `[train]` section, without what all cases have in common.
    """

    special: str
    section: dict[str, Any]


class GoldenCurve(msgspec.Struct, frozen=True):
    """The losses of a case, computed by a reference implementation in float64.

    Attributes:
        train: the loss of each step's batch, before its update.
        validation: step → the loss of the whole validation split, after that step.
    """

    train: list[float]
    validation: dict[int, float]


class GoldenFile(msgspec.Struct, frozen=True):
    """`golden.json`.

    Attributes:
        made_with: the distributions that computed it, with their versions.
        curves: the curves by case.
    """

    made_with: dict[str, str]
    curves: dict[str, GoldenCurve]


_GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40, "initializer_range": 0.1}
_LLAMA = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 40}  # fmt: skip
_QWEN3 = _LLAMA | {
    "model_type": "qwen3",
    "head_dim": 12,
    "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "yarn", "factor": 2.5, "original_max_position_embeddings": 16},
}
_QWEN3_MOE = _LLAMA | {
    "model_type": "qwen3_moe",
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "moe_intermediate_size": 20,
    "router_aux_loss_coef": 0.1,
}
_MODERNBERT = {"model_type": "modernbert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
               "intermediate_size": 48, "max_position_embeddings": 40, "global_attn_every_n_layers": 2,
               "local_attention": 8}  # fmt: skip
_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "max_position_embeddings": 40, "initializer_range": 0.1}  # fmt: skip
_GPT2_NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_BERT_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""No dropout: its random numbers differ between backends, so curves could not be compared."""

_OPTIMIZER = {"lr": 0.01, "eps": 1e-6, "weight_decay": 0.1, "clip": 0.5}


def _encoder(kind: str, **more: Any) -> dict[str, Any]:
    return {"config": {"model_type": kind, **_BERT, **_BERT_NO_DROPOUT, **more}}


CASES = {
    "gpt2-clm": Case(
        "gpt",
        {
            "task": "clm", "packing": "stream", "model": {"config": _GPT2 | _GPT2_NO_DROPOUT},
            "schedule": {"kind": "cosine", "warmup": 5, "floor": 0.1},
        },
    ),
    "llama-clm": Case(
        "gpt",
        {
            "task": "clm", "packing": "line", "model": {"config": _LLAMA},
            "schedule": {"kind": "linear", "warmup": 10}, "optimizer": _OPTIMIZER | {"beta2": 0.95, "clip": 1.0},
        },
    ),
    "roberta-mlm": Case(
        "roberta",
        {
            "task": "mlm", "packing": "complete", "masking": {"whole_word": True, "rate": 0.2},
            "model": _encoder("roberta"), "schedule": {"kind": "linear", "warmup": 5, "floor": 0.2},
        },
    ),
    "bert-mlm": Case(
        "bert",
        {
            "task": "mlm", "packing": "line", "model": _encoder("bert"),
            "schedule": {"kind": "constant", "warmup": 5}, "optimizer": _OPTIMIZER | {"lr": 0.004, "clip": 0.0},
        },
    ),
    "llama-documents": Case(
        "gpt",
        {
            "task": "clm", "packing": "stream", "document_masks": True, "z_loss": 0.01, "length": 160,
            "model": {"config": _LLAMA | {"max_position_embeddings": 160}},
            "schedule": {"kind": "wsd", "warmup": 5, "decay_steps": 20}, "optimizer": _OPTIMIZER | {"lr": 0.004},
        },
    ),
    "gpt2-stages": Case(
        "gpt",
        {
            "task": "clm", "packing": "best_fit", "model": {"config": _GPT2 | _GPT2_NO_DROPOUT},
            "stages": [{"until_step": 20, "length": 16}, {"until_step": 40, "length": 24}],
            "schedule": {"kind": "cosine", "warmup": 5, "restarts": [20], "restart_warmup": 3},
        },
    ),
    "gpt2-muon": Case(
        "gpt",
        {
            "task": "clm", "packing": "stream", "model": {"config": _GPT2 | _GPT2_NO_DROPOUT},
            "schedule": {"kind": "cosine", "warmup": 5}, "optimizer": _OPTIMIZER | {"kind": "muon", "momentum": 0.9},
        },
    ),
    "gpt2-sft": Case(
        "gpt",
        {
            "task": "sft", "length": 224, "model": {"config": _GPT2 | _GPT2_NO_DROPOUT | {"n_positions": 224}},
            "schedule": {"kind": "cosine", "warmup": 5},
        },
    ),
    "roberta-documents": Case(
        "roberta",
        {
            "task": "mlm", "packing": "complete", "document_masks": True, "masking": {"rate": 0.3}, "length": 160,
            "model": _encoder("roberta", max_position_embeddings=164), "optimizer": _OPTIMIZER | {"lr": 0.004},
            "schedule": {"kind": "inverse_sqrt", "warmup": 5},
        },
    ),
    "bert-nsp": Case(
        "bert",
        {
            "task": "mlm", "next_sentence": True, "length": 40, "masking": {"whole_word": True},
            "model": _encoder("bert"), "schedule": {"kind": "linear", "warmup": 5},
            "optimizer": _OPTIMIZER | {"lr": 0.004},
        },
    ),
    "electra-mlm": Case(
        "bert",
        {
            "task": "mlm", "packing": "stream", "model": _encoder("electra", embedding_size=16),
            "masking": {"masked": 0.7, "random": 0.2}, "schedule": {"kind": "cosine"},
        },
    ),
    "electra-rtd": Case(
        "bert",
        {
            "task": "rtd", "packing": "line", "model": _encoder("electra", embedding_size=16), "seed": 48,
            "masking": {"rate": 0.2, "masked": 0.85, "random": 0.0}, "schedule": {"kind": "linear", "warmup": 10},
            "rtd": {"generator_size": 0.5}, "optimizer": _OPTIMIZER | {"lr": 0.004},
        },
    ),
    "bert-classify": Case(
        "bert",
        {
            "task": "classify", "model": _encoder("bert"), "schedule": {"kind": "linear", "warmup": 10},
            "labelled": {"pair": "pair", "length": 40}, "optimizer": _OPTIMIZER | {"lr": 0.005},
        },
    ),
    "bert-weighted": Case(
        "bert",
        {
            "task": "classify", "model": _encoder("bert"), "schedule": {"kind": "linear", "warmup": 10},
            "labelled": {"pair": "pair", "length": 40}, "class_weights": "balanced",
            "optimizer": _OPTIMIZER | {"lr": 0.005, "layer_decay": 0.7},
        },
    ),
    "roberta-regress": Case(
        "roberta",
        {
            "task": "regress", "model": _encoder("roberta"), "schedule": {"kind": "linear", "warmup": 10},
            "labelled": {"length": 32, "buckets": [27, 30]}, "optimizer": _OPTIMIZER | {"lr": 0.003},
        },
    ),
    "qwen3-clm": Case(
        "gpt",
        {
            "task": "clm", "packing": "complete", "model": {"config": _QWEN3},
            "schedule": {"kind": "cosine", "warmup": 10, "floor": 0.1},
            "optimizer": _OPTIMIZER | {"lr": 0.004, "beta2": 0.95},
        },
    ),
    "modernbert-mlm": Case(
        "roberta",
        {
            "task": "mlm", "packing": "line", "masking": {"whole_word": True, "rate": 0.3},
            "model": {"config": _MODERNBERT}, "schedule": {"kind": "linear", "warmup": 5, "floor": 0.1},
            "optimizer": _OPTIMIZER | {"lr": 0.004},
        },
    ),
    "deberta-mlm": Case(
        "bert",
        {
            "task": "mlm", "packing": "line", "masking": {"whole_word": True},
            "model": _encoder("deberta-v2", position_buckets=4, conv_kernel_size=3, type_vocab_size=0),
            "schedule": {"kind": "linear", "warmup": 5}, "optimizer": _OPTIMIZER | {"lr": 0.004},
        },
    ),
    "qwen3-moe-clm": Case(
        "gpt",
        {
            "task": "clm", "packing": "line", "model": {"config": _QWEN3_MOE},
            "schedule": {"kind": "linear", "warmup": 10}, "optimizer": _OPTIMIZER | {"beta2": 0.95, "clip": 1.0},
        },
    ),
}  # fmt: skip
"""All without dropout, in fp32. They cover every model family, task, packing and schedule, whole-word masking, padding,
clipping, tied and untied embeddings, scaled rotary positions, local and disentangled attention, experts, a token type
that is not trained, documents apart, and stages."""

NO_DROPOUT, WITH_DROPOUT = "gpt2-clm", "gpt2-dropout"
"""A case without dropout, and the same case with dropout, which has no golden curve."""

_ALL = CASES | {WITH_DROPOUT: Case("gpt", {**CASES[NO_DROPOUT].section, "model": {"config": _GPT2}})}

_COMMON = {
    "batch": 8, "length": 32, "steps": STEPS, "seed": 7, "log_every": 1, "trackers": [], "max_restarts": 2,
    "silent_minutes": 5, "checkpoint": {"every_steps": SAVED}, "validation": {"every_steps": STEPS // 2},
    "optimizer": _OPTIMIZER,
}  # fmt: skip


def model_type_of(case: Case) -> str:
    """Return the `model_type` of a case's model."""
    kind: str = case.section["model"]["config"]["model_type"]
    return kind


def case_of(name: str) -> Case:
    """Return a case, with what all cases have in common."""
    found = _ALL[name]
    return Case(found.special, _COMMON | found.section)


@cache
def golden_curve(name: str) -> GoldenCurve:
    """Return the golden curve of a case."""
    data = files(__package__).joinpath(GOLDEN).read_bytes()
    return decode_json(data, GoldenFile).curves[name]
