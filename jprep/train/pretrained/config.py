"""Read `config.json` of a pretrained model: the architecture and its sizes, for `[train.model]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models.presets import FAMILIES, PRESETS, ModelFamily, TransformersConfig
from jprep.train.models.registry import check_version, unknown_family
from jprep.train.models.rope import SCALING, from_transformers5, rope_scaling

CONFIG = "config.json"

_SAME_FAMILY = {"xlm-roberta": "roberta", "camembert": "roberta"}
"""Model types with the architecture and tensor names of another."""
_SAME_ACTIVATION = {
    "gelu_python": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}
_RENAMED = {"num_local_experts": "num_experts"}
"""Keys as transformers 5 writes them → as jprep and transformers 4 do."""

_REQUIRED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "quantization_config": None,
    "partial_rotary_factor": 1.0,
    "use_sliding_window": False,
}
"""Keys outside of `ModelFamily.defaults` that change what a model computes, with the only value that jprep supports."""

_ABSENT = {
    "relative_attention": False,
    "position_biased_input": True,
    "pos_att_type": None,
    "share_att_key": False,
    "norm_rel_ebd": "none",
}
"""transformers' defaults of keys of `ModelFamily.fixed`, where they are others."""

_ROTARY = ("rope_theta", "global_rope_theta", "local_rope_theta", SCALING, "max_position_embeddings")

_LEFT_OUT = {"roberta": {"type_vocab_size": 2, "layer_norm_eps": 1e-12, "max_position_embeddings": 512}}
"""What transformers takes for keys that a config leaves out, where `ModelFamily.defaults` have another value."""


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
        raise ConfigError(what, where=str(path), fix=unknown_family(kind, found, FAMILIES))
    values = _plugin_values(found, FAMILIES[kind], path) if FAMILIES[kind].plugin else _values(found, kind, path)
    size, pad = found.get("vocab_size"), found.get("pad_token_id")
    if not isinstance(size, int) or size < 1:
        raise ConfigError("it has no vocab_size", where=str(path), fix="use the config.json that the model came with")
    return PretrainedConfig(path, kind, values, size, pad, _labels(found))


def _values(found: dict[str, Any], kind: str, path: Path) -> TransformersConfig:
    """Return the keys of a built-in family that a config states, spelt as jprep does."""
    found = from_transformers5({_RENAMED.get(key, key): value for key, value in found.items()}, str(path))
    _check_supported(found, FAMILIES[kind], path)
    values = _LEFT_OUT.get(kind, {}) | {key: found[key] for key in FAMILIES[kind].defaults if key in found}
    if SCALING in values:
        values[SCALING] = rope_scaling(values[SCALING], f"{path}, {SCALING}")
    activation = next((key for key in ("hidden_act", "activation_function", "hidden_activation") if key in values), "")
    if activation:
        values[activation] = _SAME_ACTIVATION.get(values[activation], values[activation])
    return values


def _plugin_values(found: dict[str, Any], family: ModelFamily, path: Path) -> TransformersConfig:
    """Return the keys of a plugin's family that a config states."""
    check_version(found, family, str(path))
    return {key: found[key] for key in family.defaults if key in found}


def with_pretrained_config(section: ModelConfig, given: PretrainedConfig, task: Task) -> ModelConfig:
    """Return the section with the model that a `config.json` describes.

    Dropout and the initializer's range may differ, because no given weight depends on them; so may the base, the
    scaling and the number of rotary positions, by which a model is trained for longer rows.

    Args:
        section: the recipe's section; `preset` and `config` may be left out.
        given: the config of the pretrained model.
        task: the task of the job.

    Raises:
        ConfigError: a key contradicts the pretrained model; the message names it.
    """
    wanted = PRESETS.get(section.preset, {}) | section.config
    described = {"model_type": given.model_type, **FAMILIES[given.model_type].defaults, **given.values}
    family = FAMILIES[given.model_type]
    may_differ = {"initializer_range", *(_ROTARY if family.rotary else ())}
    may_differ |= {family.positions} if family.plugin else set()
    free = {key: value for key, value in section.config.items() if "drop" in key or key in may_differ}
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
        fix = "give a folder of `jprep export` or transformers' save_pretrained, or the name of a model on the Hub"
        raise ConfigError("there is no config.json in this folder", where=str(path.parent), fix=fix) from error
    except ValueError as error:
        raise ConfigError(f"not a config.json: {error}", where=str(path), fix="download it again") from error


def _check_supported(found: dict[str, Any], family: ModelFamily, path: Path) -> None:
    """Check that jprep's model computes what the given one does.

    Raises:
        ConfigError: a key has a different value than jprep's models; the message names it.
    """
    needed = _REQUIRED | family.fixed | ({} if SCALING in family.defaults else {SCALING: None})
    for key, value in needed.items():
        given = _form(key, found.get(key, _ABSENT.get(key, value)))
        if given != _form(key, value):
            what = f"jprep's models have {key} = {value!r}, but this one has {given!r}"
            raise ConfigError(what, where=str(path), fix="use another model; or train it with transformers")
    width, heads = found.get(family.width), found.get(family.heads)
    if isinstance(width, int) and isinstance(heads, int) and family.fixed:
        for key, value in (("attention_head_size", width // heads), ("pooler_hidden_size", width)):
            if found.get(key, value) != value:
                what = f"jprep's models have {key} = {value}, but this one has {found[key]!r}"
                raise ConfigError(what, where=str(path), fix="use another model; or train it with transformers")


def _form(key: str, value: Any) -> Any:
    """Return a value as it is compared: kinds of DeBERTa's relative attention are a list or a text, in any order."""
    if key != "pos_att_type" or value is None:
        return value
    return sorted(value.lower().split("|") if isinstance(value, str) else value)


def _check_tied(given: PretrainedConfig, task: Task) -> None:
    untied = (
        given.values.get("tie_word_embeddings", True) is False or _read(given.path).get("tie_word_embeddings") is False
    )
    if task == "mlm" and untied and not FAMILIES[given.model_type].plugin:
        what = "its output projection is not tied to the embeddings, which jprep's models for mlm need"
        raise ConfigError(what, where=str(given.path), fix="use a model with tie_word_embeddings = true")


def _labels(found: dict[str, Any]) -> tuple[str, ...]:
    named = found.get("id2label")
    if not isinstance(named, dict):
        return ()
    return tuple(str(named[number]) for number in sorted(named, key=lambda number: int(number)))
