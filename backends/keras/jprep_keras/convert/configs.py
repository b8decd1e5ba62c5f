"""The config of a converted model: sizes from the shapes of its variables, the rest from `bert_config.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from jprep.errors import ConfigError, InputError

Shapes = Mapping[str, tuple[int, ...]]

_HEAD_SIZE = 64  # in every published model
_LAYER = re.compile(r".*\.layer\.(\d+)\..*")
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}
"""Activation functions; both repositories compute GELU by its approximation with tanh."""
_STATED = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


def make_config(kind: str, architecture: str, shapes: Shapes, stated: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return transformers' config.

    Args:
        kind: `bert` or `electra`.
        architecture: transformers' class.
        shapes: the shapes of the model's tensors by transformers' names.
        stated: the content of `bert_config.json`; empty without one.
        where: the checkpoint, for errors.

    Raises:
        ConfigError: `bert_config.json` belongs to another model.
        InputError: the checkpoint lacks a part of the model.
    """
    try:
        rows, wide = shapes[f"{kind}.embeddings.word_embeddings.weight"]
        inner, width = shapes[f"{kind}.encoder.layer.0.intermediate.dense.weight"]
        positions = shapes[f"{kind}.embeddings.position_embeddings.weight"][0]
        types = shapes[f"{kind}.embeddings.token_type_embeddings.weight"][0]
    except KeyError as error:
        what = f"the checkpoint has no variable for {error.args[0]!r}"
        raise InputError(what, where=where, fix="give the checkpoint of a whole model") from error
    layers = 1 + max(int(found[1]) for name in shapes if (found := _LAYER.fullmatch(name)))
    sizes = {
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
    }
    if different := [key for key in sizes if stated.get(key, sizes[key]) != sizes[key]]:
        key = different[0]
        what = f"{key} is {stated[key]} in the config, but {sizes[key]} in the checkpoint"
        raise ConfigError(what, where=where, fix="give the config that the model came with as --config")
    config = {"model_type": kind, "architectures": [architecture], **sizes, "layer_norm_eps": 1e-12, "pad_token_id": 0}
    config |= {"embedding_size": wide} if kind == "electra" else {}
    config |= {"num_attention_heads": _heads(stated, width), "hidden_act": _activation(stated, where)}
    return config | {key: stated.get(key, 0.02 if "range" in key else 0.1) for key in _STATED}


def read_stated_config(path: Path | None) -> dict[str, Any]:
    """Read a `bert_config.json`; empty without one.

    Raises:
        ConfigError: it cannot be read.
    """
    if path is None:
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError) as error:
        fix = "give the bert_config.json that the model came with"
        raise ConfigError(f"the config cannot be read: {error}", where=str(path), fix=fix) from error


def _heads(stated: Mapping[str, Any], width: int) -> int:
    return int(stated.get("num_attention_heads", max(1, width // _HEAD_SIZE)))


def _activation(stated: Mapping[str, Any], where: str) -> str:
    name = str(stated.get("hidden_act", "gelu"))
    if name not in _ACTIVATIONS:
        fix = f"jprep converts models with {', '.join(_ACTIVATIONS)}"
        raise ConfigError(f"an unsupported activation function {name!r}", where=where, fix=fix)
    return _ACTIVATIONS[name]
