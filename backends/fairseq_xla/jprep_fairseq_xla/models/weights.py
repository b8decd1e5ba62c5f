"""fairseq's weights and transformers': which of one lie where in the other. Arrays of numpy, no framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jprep.io.safetensors_file import Floats
from jprep.train.models import parameters

ReadTensor = Callable[[str], Floats]
"""Gives an array by its name."""

TOKEN_TYPE_TABLE = "encoder.sentence_encoder.token_type.weight"
"""RoBERTa's one token type. fairseq's class has none: the backend adds it, and it is not trained."""


class TensorLocation(NamedTuple):
    """Where a tensor of transformers' lies.

    Attributes:
        names: fairseq's; the query's, key's and value's, where transformers has them side by side in one.
        turned: whether transformers has the inputs first (its Conv1D).
        skipped: rows that fairseq has before the first one of transformers'; nothing looks at them.
    """

    names: tuple[str, ...]
    turned: bool = False
    skipped: int = 0


def tensor_locations(config: dict[str, Any], task: str, *, own: bool = False) -> dict[str, TensorLocation]:
    """Every name of transformers' → where it lies, in the order of the data's way through the model.

    Args:
        config: transformers' config.
        task: the job's.
        own: whether the model is in the hands of fairseq's own task, which counts a decoder's positions, too, from
            behind the padding's id.
    """
    counted = ("bert", "gpt2") if own else ("bert",)
    skipped = config["pad_token_id"] + 1 if config["model_type"] in counted else 0
    return {name: _spot(config["model_type"], name, skipped) for name in parameters(config, task)}


def to_fairseq_weights(config: dict[str, Any], task: str, read: ReadTensor, *, own: bool = False) -> dict[str, Floats]:
    """fairseq's weights, of transformers'.

    Args:
        config: transformers' config.
        task: the job's.
        read: gives transformers' by name.
        own: as for `spots`.
    """
    found: dict[str, Floats] = {}
    for name, spot in tensor_locations(config, task, own=own).items():
        array = read(name)
        rows = np.split(array, len(spot.names), axis=-1) if len(spot.names) > 1 else [array]
        for theirs, part in zip(spot.names, rows, strict=True):
            turned = part.T if spot.turned else part
            found[theirs] = _after(turned, spot.skipped)
    return found


def to_transformers_tensor(spot: TensorLocation, read: ReadTensor) -> Floats:
    """A tensor of transformers', of fairseq's weights, or of averages that look like them.

    Args:
        spot: where it lies.
        read: gives fairseq's by name.
    """
    parts = [read(name)[spot.skipped :] for name in spot.names]
    turned = [part.T if spot.turned else part for part in parts]
    return np.ascontiguousarray(turned[0] if len(turned) == 1 else np.concatenate(turned, axis=-1))


def _after(array: Floats, rows: int) -> Floats:
    """With rows of zeros before it."""
    if not rows:
        return np.ascontiguousarray(array)
    return np.concatenate([np.zeros((rows, *array.shape[1:]), array.dtype), array])


def _spot(kind: str, name: str, skipped: int) -> TensorLocation:
    """Where a tensor lies, where so many positions stand before the first."""
    base, table = _TABLES[kind]
    plain = name.removeprefix({"gpt2": "transformer.", "roberta": "roberta.", "bert": "bert."}[kind])
    layer, inside = _layer(plain)
    if layer is None:
        stem, _, last = plain.rpartition(".")
        own = table.get(plain) or f"{table[stem]}.{last}"
        return TensorLocation((own,), skipped=skipped if own.endswith(".embed_positions.weight") else 0)
    stem, _, last = inside.rpartition(".")
    parts = _GPT2_LAYER[stem] if kind == "gpt2" else (_ENCODER_LAYER[stem],)
    names = tuple(f"{base}.layers.{layer}.{one}.{last}" for one in parts)
    return TensorLocation(names, turned=kind == "gpt2" and last == "weight" and not stem.startswith("ln_"))


def _layer(name: str) -> tuple[str | None, str]:
    """The number of a tensor's layer, and its name within."""
    for start in ("encoder.layer.", "h."):
        if name.startswith(start):
            number, _, inside = name.removeprefix(start).partition(".")
            return number, inside
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
"""`model_type` → what stands before fairseq's layers; transformers' stem or whole name → fairseq's."""
