"""The filter `threshold`: one signal and its limits."""

from __future__ import annotations

from typing import Any

from jprep.corpus.config import StepRef, make_step
from jprep.corpus.filters.rules import Rule, RulesFilter
from jprep.corpus.step import StepConfig
from jprep.errors import ConfigError


class ThresholdFilter(RulesFilter):
    """Drops documents by one signal. In a recipe: `{ signal = "hiragana_share", min = 0.2 }`."""

    name = "threshold"
    version = 1
    local = frozenset({"of"})  # the signal itself is recorded

    class Config(StepConfig, frozen=True):
        """Options of the filter `threshold`: at least one limit.

        Attributes:
            signal: column of a signal: of one that the corpus keeps, or else of one with default options.
            min: the smallest value that is kept.
            max: the largest value that is kept.
            above: values must be greater than this.
            below: values must be less than this.
            reason: the reason of the documents that it drops; by default the name of the column.
            of: the signal with its options, if it is not one that the corpus keeps.
        """

        signal: str = ""
        min: float | None = None
        max: float | None = None
        above: float | None = None
        below: float | None = None
        reason: str = ""
        of: StepRef | None = None

    def __init__(self, config: Any = None) -> None:
        config = self.Config() if config is None else config
        if not config.signal:
            fix = '{ signal = "hiragana_share", min = 0.2 }'
            raise ConfigError("a threshold needs the column of a signal", where="filter 'threshold'", fix=fix)
        options = {name: getattr(config, name) for name in Rule.__struct_fields__}
        own = [] if config.of is None else [make_step("signal", config.of)]
        super().__init__(config, [Rule(**options).check("filter 'threshold'")], own)
