"""How a recipe says that documents become rows, and how tokens are masked. It needs no numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from jprep.config import ConfigSection
from jprep.errors import ConfigError

Packing = Literal["stream", "complete", "line", "best_fit"]
"""How documents become rows; see `docs/sampling.md`."""


class MaskingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How tokens are masked.

    Attributes:
        rate: share of tokens to predict.
        masked: share of these that are replaced by the mask token.
        random: share of these that are replaced by a random ordinary token; the rest are left unchanged.
        whole_word: whether all tokens of a word are masked together.
    """

    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    whole_word: bool = False


class LengthStage(ConfigSection, frozen=True):
    """A stage of a training whose rows have a length of their own.

    Attributes:
        until_step: the step before which it ends; it begins where the stage before it ends, the first one at step 0.
        length: tokens per row.
    """

    until_step: int
    length: int


def check_length_stages(stages: Sequence[LengthStage], where: str) -> None:
    """Check that stages are in order.

    Raises:
        ConfigError: a stage ends where it begins or before, or its rows are too short.
    """
    begin = 0
    for number, stage in enumerate(stages):
        what = f"stage {number} begins at step {begin:,}, and cannot end at {stage.until_step:,}"
        if stage.length < 2:
            what = f"rows of stage {number} need at least 2 tokens"
        if stage.until_step <= begin or stage.length < 2:
            fix = f"stages are in order of time: until_step = {begin + 1} or more, length = 1024"
            raise ConfigError(what, where=where, fix=fix)
        begin = stage.until_step
