"""Check the keys and values of a model's config."""

from __future__ import annotations

from typing import Any

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.models.presets import ModelFamily, TransformersConfig
from jprep.train.models.rope import SCALING, rope_scaling

WHERE = "train.model"

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")
"""The activation functions, as defined in docs/training.md."""

INTEGER_KEYS = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "type_vocab_size",
            "embedding_size", "n_embd", "n_layer", "n_head", "n_inner", "num_key_value_heads", "head_dim",
            "n_positions", "max_position_embeddings", "global_attn_every_n_layers", "local_attention",
            "position_buckets", "conv_kernel_size", "moe_intermediate_size", "num_experts",
            "num_experts_per_tok"}  # fmt: skip
"""Keys with integer values."""

_CHOICES = {"classifier_pooling": ("cls", "mean"), "conv_act": ("tanh", *ACTIVATIONS)}
"""Keys with different names than those of `ACTIVATIONS` → the names."""

_DERIVED_KEYS = {"vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "num_labels", "id2label", "label2id",
         "problem_type", "architectures"}  # fmt: skip

_WHOLE = ("a whole number from 0", "a whole number above 0")


def check_keys(given: TransformersConfig, family: ModelFamily) -> None:
    """Check that the keys of a recipe's config exist and may be set.

    Raises:
        ConfigError: one does not, or the tokenizer or the data determine it.
    """
    known = {*family.defaults, "model_type"}
    for key in given:
        where = f"{WHERE}.config.{key}"
        if key in _DERIVED_KEYS:
            fix = "remove it: the tokenizer or the data determine it"
            raise ConfigError(f"{key} cannot be set here", where=where, fix=fix)
        if key not in known:
            raise ConfigError(f"unknown key {key!r}", where=where, fix=suggest_name(key, known))


def check_values(config: TransformersConfig, family: ModelFamily, section: str = f"{WHERE}.config") -> None:
    """Check the values of a config, and that they go together.

    Args:
        config: a value for each of the family's keys.
        family: the model family.
        section: the place of the values, for errors.

    Raises:
        ConfigError: a value is invalid.
    """
    if family.plugin:
        family.plugin.read_config(config, section)
        return
    for key, value in config.items():
        if (wanted := _wrong(key, value, family.defaults[key])) is not None:
            raise ConfigError(f"{key} cannot be {value!r}", where=f"{section}.{key}", fix=f"give {wanted}")
    if SCALING in config:
        rope_scaling(config[SCALING], f"{section}.{SCALING}")
    width, heads = config[family.width], config[family.heads]
    if width % heads and config.get("head_dim") is None:
        fix = f"make {family.width} a multiple of {family.heads}"
        raise ConfigError(f"{width} cannot be divided among {heads} heads", where=section, fix=fix)
    if (kernel := config.get("conv_kernel_size", 0)) and not kernel % 2:
        what = f"a convolution of {kernel} tokens would change the length of a row"
        raise ConfigError(what, where=f"{section}.conv_kernel_size", fix="use 0 for none, or an odd number")
    if config.get("num_experts_per_tok", 0) > config.get("num_experts", 0):
        what = "a token cannot have more experts than there are"
        raise ConfigError(what, where=f"{section}.num_experts_per_tok", fix="use at most num_experts")
    shared = config.get("num_key_value_heads") or heads
    if heads % shared:
        fix = "make num_attention_heads a multiple of num_key_value_heads"
        raise ConfigError(f"{heads} heads cannot share {shared}", where=section, fix=fix)


def _wrong(key: str, value: Any, default: Any) -> str | None:
    """Return what the value should be; None if it is valid."""
    if (value is None and default is None) or key == SCALING:
        return None
    if key in INTEGER_KEYS:
        least = 0 if default == 0 else 1
        return None if type(value) is int and value >= least else _WHOLE[least]
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        choices = _CHOICES.get(key, ACTIVATIONS)
        return None if value in choices else f"one of {', '.join(choices)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if "drop" in key:
        return None if number and 0 <= value < 1 else "a number from 0 to below 1"
    if key.endswith("_coef"):
        return None if number and 0 <= value < float("inf") else "a number from 0"
    return None if number and 0 < value < float("inf") else "a number above 0"
