"""The recipe's `[train.samples]`: texts that the checkpoints of a run continue, or whose masks they fill."""

from __future__ import annotations

import msgspec

from jprep.errors import ConfigError

_MAX_PROMPTS = 32


class SamplesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Samples of text that a run records at its checkpoints, in the background; a failure never stops training.

    Attributes:
        prompts: raw texts to continue (`clm`) or to answer (`sft`), with masks to fill (`mlm`, `rtd`), or to classify;
            empty for no samples.
        tokens: the maximum number of new tokens of a continuation.
    """

    prompts: list[str] = []
    tokens: int = 40


def check_samples(samples: SamplesConfig) -> None:
    """Check the values of the section.

    Raises:
        ConfigError: a value out of its range.
    """
    where = "train.samples"
    if len(samples.prompts) > _MAX_PROMPTS:
        fix = f"give at most {_MAX_PROMPTS}: every checkpoint answers all of them"
        raise ConfigError("too many prompts", where=where, fix=fix)
    if samples.tokens < 1:
        raise ConfigError("train.samples.tokens must be at least 1", where=where, fix="e.g. tokens = 40")
