"""The table `[train.rtd]`: replaced-token detection, the pretraining of ELECTRA."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from jprep.errors import ConfigError

GENERATOR_KEYS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act")
"""Values that the generator's config may have of its own; it shares the embeddings of the discriminator."""


class RtdConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Replaced-token detection (`task = "rtd"`) as in Clark et al. (2020), "ELECTRA".

    Attributes:
        generator_size: hidden size, feed-forward size and number of heads of the generator as a fraction of the
            discriminator's; 0 is the published one, 1/3 for `electra-base` and 1/4 for all others.
        generator: values of transformers' config for the generator that override these, e.g. `num_hidden_layers`.
        generator_init: the generator's initial weights: a folder in Hugging Face form, or its name on the Hub, whose
            config.json then defines the generator; `model.init` is the discriminator's. "" takes those in `model.init`.
        discriminator_weight: the loss is the generator's plus this times the discriminator's.
    """

    generator_size: float = 0.0
    generator: dict[str, Any] = {}
    generator_init: str = ""
    discriminator_weight: float = 50.0


def check_rtd(rtd: RtdConfig, mask_rate: float, init: str, where: str) -> None:
    """Check the values of the table.

    Args:
        rtd: the table.
        mask_rate: `train.masking.rate`.
        init: `train.model.init`.
        where: the section's place, for errors.

    Raises:
        ConfigError: a value is out of its range, or no token would be replaced.
    """
    if not 0 <= rtd.generator_size <= 1:
        fix = "a fraction such as 0.25, or 0 for the published one"
        raise ConfigError("train.rtd.generator_size must be from 0 to 1", where=where, fix=fix)
    if not 0 < rtd.discriminator_weight < math.inf:
        fix = "discriminator_weight = 50"
        raise ConfigError("train.rtd.discriminator_weight must be above 0", where=where, fix=fix)
    if rtd.generator_init and not init:
        fix = "give the discriminator as train.model.init"
        raise ConfigError("train.rtd.generator_init is for half of an ELECTRA", where=where, fix=fix)
    if rtd.generator_init and rtd.generator_size:
        fix = "remove one of them: the generator's config.json has its size"
        raise ConfigError("train.rtd has both generator_init and generator_size", where=where, fix=fix)
    for key in rtd.generator:
        if key not in GENERATOR_KEYS:
            fix = f"use {', '.join(GENERATOR_KEYS)}; everything else is the discriminator's"
            raise ConfigError(f"train.rtd.generator has no key {key!r}", where=where, fix=fix)
    if not mask_rate:
        fix = "masking.rate = 0.15, or 0.25 for electra-large"
        raise ConfigError("rtd replaces masked tokens, and train.masking.rate is 0", where=where, fix=fix)
