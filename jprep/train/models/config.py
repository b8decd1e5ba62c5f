"""From a recipe's `[train.model]` to transformers' whole config: presets, what the tokenizer says, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jprep.errors import ConfigError
from jprep.plugins.references import suggest_name
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models.presets import FAMILIES, PRESETS, ModelFamily, TransformersConfig

WHERE = "train.model"

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")
"""Those that docs/training.md defines."""

INTEGER_KEYS = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "type_vocab_size",
            "embedding_size", "n_embd", "n_layer", "n_head", "n_inner", "num_key_value_heads", "head_dim",
            "n_positions", "max_position_embeddings"}  # fmt: skip
"""Keys whose values are whole numbers."""

_SAID = {"vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "num_labels", "id2label", "label2id",
         "problem_type", "architectures"}  # fmt: skip


class TokenizerInfo(NamedTuple):
    """What a model's config takes from the tokenizer and the job.

    Attributes:
        vocab_size: all ids.
        length: tokens of the longest row.
        bos, eos, pad: special ids; None where the tokenizer has no such token.
        labels: names of classes; empty but for `classify`.
    """

    vocab_size: int
    length: int
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    labels: Sequence[str] = ()


def model_config(section: ModelConfig, task: Task, about: TokenizerInfo) -> TransformersConfig:
    """The whole config of a model: what the section says, over its preset, over transformers' defaults.

    Args:
        section: the recipe's.
        task: what the model is for.
        about: what the tokenizer and the job say.

    Raises:
        ConfigError: an unknown preset, kind or key, a value that makes no model, or one that the job does not fit.
    """
    chosen = _preset(section.preset) | section.config
    kind, family = _family(chosen, task)
    _check_keys(section.config, family)
    config = family.defaults | {key: value for key, value in chosen.items() if key != "model_type"}
    _check_values(config, family)
    _derive(config, kind)
    pad = _pad(kind, task, about)
    needed = about.length + (pad + 1 if kind == "roberta" and pad is not None else 0)
    _fill_positions(config, family, needed, fixed=family.positions in section.config)
    ids = {"bos_token_id": about.bos, "eos_token_id": about.eos, "pad_token_id": pad}
    head = {"model_type": kind, "architectures": [family.classes[task]], "vocab_size": about.vocab_size}
    return head | ids | config | _labels(task, about.labels)


def check_model(section: ModelConfig, task: Task) -> None:
    """Check what is known of a model before there is a tokenizer, if one is named: its type, its keys, their values.

    Raises:
        ConfigError: an unknown preset, kind or key, or a value that makes no model.
    """
    chosen = _preset(section.preset) | section.config
    if "model_type" in chosen:
        _, family = _family(chosen, task)
        _check_keys(section.config, family)
        _check_values(family.defaults | {key: chosen[key] for key in chosen if key != "model_type"}, family)


def max_positions(config: TransformersConfig) -> int:
    """Return how many tokens a model takes at once.

    Raises:
        ConfigError: its type is none of ours, or its config lacks the key.
    """
    kind = config.get("model_type")
    if kind not in FAMILIES or not isinstance(config.get(FAMILIES[kind].positions), int):
        what = f"jprep runs no model of type {kind!r} with this config"
        raise ConfigError(
            what, where="config.json", fix=f"{suggest_name(str(kind), FAMILIES)}; or load it with AutoModel"
        )
    most: int = config[FAMILIES[config["model_type"]].positions]
    return most - config["pad_token_id"] - 1 if config["model_type"] == "roberta" else most


def _preset(name: str) -> TransformersConfig:
    if name and name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}", where=f"{WHERE}.preset", fix=suggest_name(name, PRESETS))
    return PRESETS.get(name, {})


def _family(chosen: TransformersConfig, task: Task) -> tuple[str, ModelFamily]:
    kind = chosen.get("model_type")
    if kind is None:
        fix = f'preset = "gpt2-small", or config.model_type; {suggest_name("", PRESETS)}'
        raise ConfigError("which model is to be trained", where=WHERE, fix=fix)
    if kind not in FAMILIES:
        where = f"{WHERE}.config.model_type"
        raise ConfigError(f"jprep trains no model of type {kind!r}", where=where, fix=suggest_name(str(kind), FAMILIES))
    if task not in FAMILIES[kind].classes:
        able = [name for name, preset in PRESETS.items() if task in FAMILIES[preset["model_type"]].classes]
        fix = f"these do: {', '.join(able)}"
        raise ConfigError(f"a model of type {kind!r} has no task {task!r}", where=WHERE, fix=fix)
    return kind, FAMILIES[kind]


def _check_keys(given: TransformersConfig, family: ModelFamily) -> None:
    known = {*family.defaults, "model_type"}
    for key in given:
        where = f"{WHERE}.config.{key}"
        if key in _SAID:
            raise ConfigError(
                f"{key} is not set here", where=where, fix="leave it out: the tokenizer or the data say it"
            )
        if key not in known:
            raise ConfigError(f"unknown key {key!r}", where=where, fix=suggest_name(key, known))


def _check_values(config: TransformersConfig, family: ModelFamily) -> None:
    for key, value in config.items():
        if (wanted := _wrong(key, value, family.defaults[key])) is not None:
            raise ConfigError(f"{key} cannot be {value!r}", where=f"{WHERE}.config.{key}", fix=f"give {wanted}")
    width, heads = config[family.width], config[family.heads]
    if width % heads and config.get("head_dim") is None:
        fix = f"{family.width} is a multiple of {family.heads}"
        raise ConfigError(f"{width} cannot be divided among {heads} heads", where=f"{WHERE}.config", fix=fix)
    shared = config.get("num_key_value_heads") or heads
    if heads % shared:
        fix = "num_attention_heads is a multiple of num_key_value_heads"
        raise ConfigError(f"{heads} heads cannot share {shared}", where=f"{WHERE}.config", fix=fix)


def _wrong(key: str, value: Any, default: Any) -> str | None:
    """What the value should be, if it is not that."""
    if value is None and default is None:
        return None
    if key in INTEGER_KEYS:
        return None if type(value) is int and value > 0 else "a whole number above 0"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return None if value in ACTIVATIONS else f"one of {', '.join(ACTIVATIONS)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if "drop" in key:
        return None if number and 0 <= value < 1 else "a share from 0 to below 1"
    return None if number and 0 < value < float("inf") else "a number above 0"


def _derive(config: TransformersConfig, kind: str) -> None:
    """Say what transformers would work out."""
    if kind == "gpt2" and config["n_inner"] is None:
        config["n_inner"] = 4 * config["n_embd"]
    if kind == "llama":
        config["num_key_value_heads"] = config["num_key_value_heads"] or config["num_attention_heads"]
        config["head_dim"] = config["head_dim"] or config["hidden_size"] // config["num_attention_heads"]
        if config["head_dim"] % 2:
            fix = "rotary positions turn pairs of numbers"
            raise ConfigError("head_dim must be even", where=f"{WHERE}.config.head_dim", fix=fix)


def _pad(kind: str, task: Task, about: TokenizerInfo) -> int | None:
    """The id that pads, as the config has it.

    transformers neither starts nor trains the row of a padding token. Where that token also ends documents, as in
    GPT-2's set, a language model must learn it: its config then has none, and rows are padded all the same.
    """
    needs = kind == "roberta" or (kind in ("gpt2", "llama") and task != "clm")
    if about.pad is None and needs:
        fix = 'train a tokenizer with special = ["roberta"], ["bert"] or ["gpt"]'
        raise ConfigError(f"{kind} needs a padding token for this, and the tokenizer has none", where=WHERE, fix=fix)
    return None if task == "clm" and about.pad in (about.bos, about.eos) else about.pad


def _fill_positions(config: TransformersConfig, family: ModelFamily, needed: int, *, fixed: bool) -> None:
    key = family.positions
    if fixed and config[key] < needed:
        fix = f"{key} = {needed}, or leave it out; or shorter rows"
        what = f"rows need {needed} positions, and the model has {config[key]}"
        raise ConfigError(what, where=f"{WHERE}.config.{key}", fix=fix)
    config[key] = max(config[key], needed)


def _labels(task: Task, names: Sequence[str]) -> TransformersConfig:
    if task not in ("classify", "regress"):
        return {}
    names = names if task == "classify" else ["LABEL_0"]
    kind = "single_label_classification" if task == "classify" else "regression"
    return {
        "problem_type": kind,
        "id2label": {str(place): name for place, name in enumerate(names)},
        "label2id": {name: place for place, name in enumerate(names)},
    }
