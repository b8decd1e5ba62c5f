"""Settings of rotary position embeddings (RoPE), as transformers' configs have them.

jprep writes the keys of transformers 4, `rope_theta` and `rope_scaling`, which transformers 5 reads, too. Version 5
itself writes one table, `rope_parameters`.
"""

from __future__ import annotations

import math
from typing import Any

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.models.presets import TransformersConfig

SCALING = "rope_scaling"
"""The key of the table that changes the frequencies for longer rows. Configs without scaling do not have it."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""Type of scaling → the numbers that it needs."""

_OPTIONAL = {"yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")}

_BASES = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
"""Kind of a layer of ModernBERT in configs of transformers 5 → the key of transformers 4 for its base."""

_POSITIONS = "original_max_position_embeddings"


def rope_scaling(given: Any, where: str) -> dict[str, Any] | None:
    """Return a table `rope_scaling` with numbers as transformers expects them; None if nothing is scaled.

    Args:
        given: the table; its type is called `rope_type`, or `type` in older configs.
        where: its place, for errors.

    Raises:
        ConfigError: an unknown type or key, a missing key or an invalid number.
    """
    if given is None:
        return None
    if not isinstance(given, dict):
        fix = 'give a table, e.g. { rope_type = "yarn", factor = 4.0, original_max_position_embeddings = 4096 }'
        raise ConfigError(f"rope_scaling cannot be {given!r}", where=where, fix=fix)
    kind = str(given.get("rope_type", given.get("type", "default")))
    if kind not in _REQUIRED:
        what = f"jprep has no RoPE scaling of type {kind!r}"
        raise ConfigError(what, where=f"{where}.rope_type", fix=suggest_name(kind, _REQUIRED))
    numbers = {key: value for key, value in given.items() if key not in ("rope_type", "type") and value is not None}
    known = (*_REQUIRED[kind], *_OPTIONAL.get(kind, ()))
    for key in (*numbers, *_REQUIRED[kind]):
        if key not in known:
            raise ConfigError(f"{kind} has no key {key!r}", where=f"{where}.{key}", fix=suggest_name(key, known))
        if key not in numbers:
            raise ConfigError(f"{kind} needs {key}", where=where, fix=f"add {key}")
    if kind == "default":
        return None
    scaling: dict[str, Any] = {"rope_type": kind} | {
        key: _number(key, value, f"{where}.{key}") for key, value in numbers.items()
    }
    if kind == "llama3" and scaling["low_freq_factor"] >= scaling["high_freq_factor"]:
        fix = "as in Llama 3.1: low_freq_factor = 1.0, high_freq_factor = 4.0"
        raise ConfigError("low_freq_factor must be below high_freq_factor", where=where, fix=fix)
    return scaling


def from_transformers5(found: TransformersConfig, where: str) -> TransformersConfig:
    """Return a config with the keys of transformers 4 in place of those of version 5.

    Args:
        found: a config, with `rope_parameters` and, for ModernBERT, `layer_types` if version 5 has written it.
        where: its place, for errors.

    Raises:
        ConfigError: ModernBERT's positions are scaled, or its global layers have no regular interval.
    """
    table = found.get("rope_parameters")
    if not isinstance(table, dict):
        return found
    if not _BASES.keys() & table.keys():
        scaling = {key: value for key, value in table.items() if key != "rope_theta"}
        theta = {"rope_theta": table["rope_theta"]} if "rope_theta" in table else {}
        return found | theta | {SCALING: found.get(SCALING) or scaling or None}
    plain = dict(found)
    for kind, key in _BASES.items():
        own = dict(table.get(kind) or {})
        plain |= {key: own.pop("rope_theta")} if "rope_theta" in own else {}
        plain[SCALING] = plain.get(SCALING) or rope_scaling(own, f"{where}, rope_parameters.{kind}")
    return plain | _interval(found.get("layer_types"), where)


def _interval(layers: Any, where: str) -> TransformersConfig:
    """Return the key for the interval of ModernBERT's global layers, given the kind of each layer."""
    if not layers:
        return {}
    every = layers.index("full_attention", 1) if "full_attention" in layers[1:] else len(layers)
    if list(layers) == ["sliding_attention" if number % every else "full_attention" for number in range(len(layers))]:
        return {"global_attn_every_n_layers": every}
    what = "its layers of global attention have no regular interval, beginning with the first layer"
    raise ConfigError(what, where=f"{where}, layer_types", fix="use another model; or train it with transformers")


def _number(key: str, value: Any, where: str) -> int | float | bool:
    """Return a number of the table as transformers' checks want it: a float, but positions are whole."""
    if key == "truncate":
        if isinstance(value, bool):
            return value
        raise ConfigError(f"{key} cannot be {value!r}", where=where, fix="give true or false")
    whole = key == _POSITIONS
    least = 1 if key in ("factor", _POSITIONS) else 0
    types = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, types) or not least <= value < math.inf:
        fix = f"give a {'whole number' if whole else 'number'} of at least {least}"
        raise ConfigError(f"{key} cannot be {value!r}", where=where, fix=fix)
    return value if whole else float(value)
