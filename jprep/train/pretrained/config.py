"""Read `config.json` of a pretrained model: the architecture and its sizes, for `[train.model]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models.presets import FAMILIES, PRESETS, TransformersConfig

CONFIG = "config.json"

_SAME_FAMILY = {"xlm-roberta": "roberta", "camembert": "roberta"}
"""Model types with the architecture and tensor names of another."""
_SAME_ACTIVATION = {
    "gelu_python": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}
_REQUIRED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "rope_scaling": None,
    "quantization_config": None,
}
"""Keys outside of `ModelFamily.defaults` that change what a model computes, with the only value that jprep supports."""


class PretrainedConfig(NamedTuple):
    """The config of a pretrained model.

    Attributes:
        path: its `config.json`.
        model_type: a name in `FAMILIES`.
        values: the keys of `ModelFamily.defaults` that it states.
        vocab_size: rows of its embedding table.
        pad: the id of its padding token; None if it has none.
        labels: the names of its classes by id; empty if it states none.
    """

    path: Path
    model_type: str
    values: TransformersConfig
    vocab_size: int
    pad: int | None
    labels: tuple[str, ...]


def read_pretrained_config(folder: Path) -> PretrainedConfig:
    """Read the config of a model in Hugging Face form.

    Raises:
        ConfigError: there is no config.json, it is invalid, or jprep has no such architecture.
    """
    path = folder / CONFIG
    found = _read(path)
    kind = str(found.get("model_type", ""))
    kind = _SAME_FAMILY.get(kind, kind)
    if kind not in FAMILIES:
        what = f"jprep has no architecture for models of type {kind!r}"
        raise ConfigError(what, where=str(path), fix=suggest_name(kind, FAMILIES))
    found = _with_rope(found)
    _check_supported(found, path)
    values = {key: found[key] for key in FAMILIES[kind].defaults if key in found}
    activation = next((key for key in ("hidden_act", "activation_function") if key in values), "")
    if activation:
        values[activation] = _SAME_ACTIVATION.get(values[activation], values[activation])
    size, pad = found.get("vocab_size"), found.get("pad_token_id")
    if not isinstance(size, int) or size < 1:
        raise ConfigError("it has no vocab_size", where=str(path), fix="use the config.json that the model came with")
    return PretrainedConfig(path, kind, values, size, pad, _labels(found))


def with_pretrained_config(section: ModelConfig, given: PretrainedConfig, task: Task) -> ModelConfig:
    """Return the section with the model that a `config.json` describes.

    Dropout and the initializer's range may differ, because no given weight depends on them.

    Args:
        section: the recipe's section; `preset` and `config` may be left out.
        given: the config of the pretrained model.
        task: the task of the job.

    Raises:
        ConfigError: a key contradicts the pretrained model; the message names it.
    """
    wanted = PRESETS.get(section.preset, {}) | section.config
    described = {"model_type": given.model_type, **FAMILIES[given.model_type].defaults, **given.values}
    free = {key: value for key, value in section.config.items() if "drop" in key or key == "initializer_range"}
    for key, value in wanted.items():
        if key not in free and key in described and described[key] not in (None, value):
            source = f"preset {section.preset!r}" if key not in section.config else f"train.model.config.{key}"
            what = f"{key} is {value!r} in {source}, but {described[key]!r} in the model's config.json"
            raise ConfigError(what, where=str(given.path), fix="remove it: config.json describes the given weights")
    _check_tied(given, task)
    unknown = {key: value for key, value in section.config.items() if key not in described}
    return msgspec.structs.replace(
        section, preset="", config={"model_type": given.model_type, **given.values} | free | unknown
    )


def fitting_vocab_size(section: ModelConfig, given: PretrainedConfig, size: int, pad: int | None) -> int:
    """Return the number of rows of the embeddings: those of the given model, unless the vocabulary is another.

    Published models may have more rows than their tokenizer has ids.

    Args:
        section: the recipe's section.
        given: the config of the pretrained model.
        size: the number of ids of the job's tokenizer.
        pad: the id of its padding token.

    Raises:
        ConfigError: the tokenizer does not fit the model.
    """
    if section.vocabulary == "transfer":
        return size
    another = 'use the model\'s own tokenizer; or set train.model.vocabulary = "transfer"'
    if size > given.vocab_size:
        what = f"the tokenizer has {size:,} ids, but the model {given.vocab_size:,}"
        raise ConfigError(what, where=str(given.path), fix=another)
    if given.model_type == "roberta" and pad != given.pad:
        what = f"the tokenizer's padding has the id {pad}, but positions of this model are counted from {given.pad}"
        raise ConfigError(what, where=str(given.path), fix=another)
    return given.vocab_size


def has_same_labels(given: PretrainedConfig, config: TransformersConfig) -> bool:
    """Return whether the head of a pretrained classifier is for the labels of a job, as far as its config says."""
    wanted = tuple(config["id2label"][str(number)] for number in range(len(config.get("id2label", ()))))
    generic = tuple(f"LABEL_{number}" for number in range(len(wanted)))
    return given.labels in (wanted, generic) or (not given.labels and len(wanted) == 2)


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        fix = "give the folder that transformers' save_pretrained wrote, or the name of a model on the Hub"
        raise ConfigError("there is no config.json in this folder", where=str(path.parent), fix=fix) from error
    except ValueError as error:
        raise ConfigError(f"not a config.json: {error}", where=str(path), fix="download it again") from error


def _with_rope(found: dict[str, Any]) -> dict[str, Any]:
    """Return the config with rotary embeddings described by the keys of transformers 4; 5 has them in one table."""
    rope = found.get("rope_parameters")
    scaling = found.get("rope_scaling") or rope
    if not isinstance(scaling, dict):
        return found
    plain = scaling.get("rope_type", scaling.get("type", "default")) == "default"
    theta = {"rope_theta": scaling["rope_theta"]} if "rope_theta" in scaling else {}
    return found | theta | {"rope_scaling": None if plain else scaling}


def _check_supported(found: dict[str, Any], path: Path) -> None:
    for key, value in _REQUIRED.items():
        if found.get(key, value) != value:
            what = f"jprep's models have {key} = {value!r}, but this one has {found[key]!r}"
            raise ConfigError(what, where=str(path), fix="use another model; or train it with transformers")


def _check_tied(given: PretrainedConfig, task: Task) -> None:
    untied = (
        given.values.get("tie_word_embeddings", True) is False or _read(given.path).get("tie_word_embeddings") is False
    )
    if task == "mlm" and untied:
        what = "its output projection is not tied to the embeddings, which jprep's models for mlm need"
        raise ConfigError(what, where=str(given.path), fix="use a model with tie_word_embeddings = true")


def _labels(found: dict[str, Any]) -> tuple[str, ...]:
    named = found.get("id2label")
    if not isinstance(named, dict):
        return ()
    return tuple(str(named[number]) for number in sorted(named, key=lambda number: int(number)))
