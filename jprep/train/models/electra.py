"""The two halves of an ELECTRA: its generator's config and weights, and what each half exports.

The discriminator's tensors have transformers' names for `ElectraForPreTraining`. The generator's have those for
`ElectraForMaskedLM` after the prefix `generator.`, except its embeddings, which are the discriminator's.
"""

from __future__ import annotations

from typing import Literal

from jprep.train.job.rtd import GENERATOR_KEYS, RtdConfig
from jprep.train.models.presets import TransformersConfig

GENERATOR = "generator"
"""The key of the generator's config in the job's, and the prefix of the names of its tensors."""

Half = Literal["discriminator", "generator"]

PUBLISHED_SIZES = {"electra-base": 1 / 3}
"""Preset → size of its generator in Clark et al. (2020), Table 6, relative to the discriminator."""

_SIZE = 1 / 4  # of all other published generators
_EMBEDDINGS = "electra.embeddings."


def generator_config(config: TransformersConfig, preset: str, rtd: RtdConfig) -> TransformersConfig:
    """Return the generator's config: the discriminator's with smaller layers, and as many of them.

    Args:
        config: the discriminator's complete config.
        preset: the name of its preset, or "".
        rtd: the recipe's table.
    """
    size = rtd.generator_size or PUBLISHED_SIZES.get(preset, _SIZE)
    scaled = {key: max(1, round(size * config[key])) for key in ("hidden_size", "intermediate_size")}
    heads = max(1, round(size * config["num_attention_heads"]))
    hidden = rtd.generator.get("hidden_size", scaled["hidden_size"])
    while hidden % heads:
        heads -= 1
    own = {key: value for key, value in rtd.generator.items() if key in GENERATOR_KEYS}
    sizes = scaled | {"num_attention_heads": heads} | own
    return config | sizes | {"architectures": ["ElectraForMaskedLM"]}


def half_config(config: TransformersConfig, half: Half) -> TransformersConfig:
    """Return transformers' config of one half.

    Args:
        config: the config of a job for `rtd`.
        half: which half.
    """
    if half == GENERATOR:
        found: TransformersConfig = config[GENERATOR]
        return found
    return {key: value for key, value in config.items() if key != GENERATOR}


def is_shared(name: str) -> bool:
    """Return whether a tensor of the generator, by its name in transformers, is the discriminator's."""
    return name.startswith(_EMBEDDINGS)


def name_in_checkpoint(name: str) -> str:
    """Return the name in a checkpoint of a tensor of the generator, given its name in transformers."""
    return name if is_shared(name) else f"{GENERATOR}.{name}"
