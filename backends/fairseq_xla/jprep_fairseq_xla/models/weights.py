"""Map fairseq's weights to those of transformers and back. Arrays are numpy's; no framework is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jprep.io.safetensors_file import Floats
from jprep.train.models import parameters

ReadTensor = Callable[[str], Floats]
"""Returns a tensor by name."""

TOKEN_TYPE_TABLE = "encoder.sentence_encoder.token_type.weight"
"""RoBERTa's only token type. fairseq's class has none: the backend adds it, and it is not trained."""


class TensorLocation(NamedTuple):
    """Where a tensor of transformers lies in fairseq's model.

    Attributes:
        names: fairseq's names: several where transformers has query, key and value side by side in one tensor.
        transposed: whether transformers has the inputs first (its Conv1D).
        skipped: rows that fairseq has before the first one of transformers; they are never used.
    """

    names: tuple[str, ...]
    transposed: bool = False
    skipped: int = 0


def tensor_locations(
    config: dict[str, Any], task: str, *, fairseq_positions: bool = False
) -> dict[str, TensorLocation]:
    """Return the location of every tensor of transformers by name, in the order of the forward pass.

    Args:
        config: the config of transformers.
        task: the job's task.
        fairseq_positions: whether positions are numbered as in fairseq's own tasks, which start a decoder's, too, at
            the id of padding + 1.
    """
    offset_types = ("bert", "gpt2") if fairseq_positions else ("bert",)
    skipped = config["pad_token_id"] + 1 if config["model_type"] in offset_types else 0
    return {name: _location(config["model_type"], name, skipped) for name in parameters(config, task)}


def to_fairseq_weights(
    config: dict[str, Any], task: str, read: ReadTensor, *, fairseq_positions: bool = False
) -> dict[str, Floats]:
    """Return fairseq's weights, made from those of transformers.

    Args:
        config: the config of transformers.
        task: the job's task.
        read: returns a tensor of transformers by name.
        fairseq_positions: see `tensor_locations`.
    """
    weights: dict[str, Floats] = {}
    for name, where in tensor_locations(config, task, fairseq_positions=fairseq_positions).items():
        array = read(name)
        parts = np.split(array, len(where.names), axis=-1) if len(where.names) > 1 else [array]
        for fairseq_name, part in zip(where.names, parts, strict=True):
            weights[fairseq_name] = _prepend_rows(part.T if where.transposed else part, where.skipped)
    return weights


def to_transformers_tensor(where: TensorLocation, read: ReadTensor) -> Floats:
    """Return a tensor of transformers, made from fairseq's weights or from averages of their shapes.

    Args:
        where: location of the tensor.
        read: returns a tensor of fairseq by name.
    """
    parts = [read(name)[where.skipped :] for name in where.names]
    parts = [part.T if where.transposed else part for part in parts]
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))


def _prepend_rows(array: Floats, rows: int) -> Floats:
    """Return an array with rows of zeros before it."""
    if not rows:
        return np.ascontiguousarray(array)
    return np.concatenate([np.zeros((rows, *array.shape[1:]), array.dtype), array])


def _location(model_type: str, name: str, skipped: int) -> TensorLocation:
    """Return a tensor's location; `skipped` rows of positions precede the first one."""
    prefix, table = _TABLES[model_type]
    plain = name.removeprefix({"gpt2": "transformer.", "roberta": "roberta.", "bert": "bert."}[model_type])
    layer, inner = _split_layer(plain)
    if layer is None:
        stem, _, last = plain.rpartition(".")
        own = table.get(plain) or f"{table[stem]}.{last}"
        return TensorLocation((own,), skipped=skipped if own.endswith(".embed_positions.weight") else 0)
    stem, _, last = inner.rpartition(".")
    parts = _GPT2_LAYER[stem] if model_type == "gpt2" else (_ENCODER_LAYER[stem],)
    names = tuple(f"{prefix}.layers.{layer}.{part}.{last}" for part in parts)
    transposed = model_type == "gpt2" and last == "weight" and not stem.startswith("ln_")
    return TensorLocation(names, transposed=transposed)


def _split_layer(name: str) -> tuple[str | None, str]:
    """Split a name into the number of its layer, None outside the layers, and the name within the layer."""
    for prefix in ("encoder.layer.", "h."):
        if name.startswith(prefix):
            number, _, inner = name.removeprefix(prefix).partition(".")
            return number, inner
    return None, name


_SENTENCE = "encoder.sentence_encoder"
_ENCODER_LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
_GPT2_LAYER = {
    "ln_1": ("self_attn_layer_norm",),
    "attn.c_attn": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn.c_proj": ("self_attn.out_proj",),
    "ln_2": ("final_layer_norm",),
    "mlp.c_fc": ("fc1",),
    "mlp.c_proj": ("fc2",),
}
_TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "roberta": (
        _SENTENCE,
        {
            "embeddings.word_embeddings": f"{_SENTENCE}.embed_tokens",
            "embeddings.position_embeddings": f"{_SENTENCE}.embed_positions",
            "embeddings.token_type_embeddings.weight": TOKEN_TYPE_TABLE,
            "embeddings.LayerNorm": f"{_SENTENCE}.layernorm_embedding",
            "lm_head.dense": "encoder.lm_head.dense",
            "lm_head.layer_norm": "encoder.lm_head.layer_norm",
            "lm_head.bias": "encoder.lm_head.bias",
        },
    ),
    "bert": (
        _SENTENCE,
        {
            "embeddings.word_embeddings": f"{_SENTENCE}.embed_tokens",
            "embeddings.position_embeddings": f"{_SENTENCE}.embed_positions",
            "embeddings.token_type_embeddings": f"{_SENTENCE}.segment_embeddings",
            "embeddings.LayerNorm": f"{_SENTENCE}.emb_layer_norm",
            "cls.predictions.transform.dense": "encoder.lm_head_transform_weight",
            "cls.predictions.transform.LayerNorm": "encoder.layer_norm",
            "cls.predictions.bias": "encoder.lm_output_learned_bias",
        },
    ),
    "gpt2": (
        "decoder",
        {
            "wte": "decoder.embed_tokens",
            "wpe": "decoder.embed_positions",
            "ln_f": "decoder.layer_norm",
            "lm_head": "decoder.output_projection",
        },
    ),
}
"""`model_type` → prefix of fairseq's layers, and fairseq's names by transformers' stems or whole names."""
