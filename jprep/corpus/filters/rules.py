"""Filters that compare signals with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.document import Verdict
from jprep.corpus.filters.limits import SignalLimits
from jprep.corpus.filters.verdicts import BatchFilter, verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.lookup import find_signal
from jprep.corpus.signals.per_line import of_documents
from jprep.corpus.step import Signal, Threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Rule(SignalLimits, frozen=True):
    """Limits of one signal, with the reason of the documents outside: `Rule(signal="hiragana_share", min=0.2)`.

    A document to which the signal does not apply (NaN) is kept.

    Attributes:
        reason: the reason of the documents that it drops; by default the name of the column.
    """

    reason: str = ""

    def check(self, where: str) -> Rule:
        """Check the limits, and return the rule.

        Args:
            where: the filter, for the error.

        Raises:
            ConfigError: see `SignalLimits.check_limits`.
        """
        self.check_limits(where)
        return self


class RulesFilter(BatchFilter):
    """Drops documents by the first rule that fails.

    A subclass makes the rules and signals in `__init__`:

        def __init__(self, config: Any = None) -> None:
            config = self.Config() if config is None else config
            loud = Rule(signal="exclamation_share", max=config.most, reason="loud").check("filter 'quiet'")
            super().__init__(config, [loud], [Exclamations()])

    The options and the signals are part of the fingerprint, the rules are not: raise `version` when they change.

    Args:
        config: the options of the filter.
        rules: the rules, in order.
        own: signals of the filter; its rules look for their columns in these first, then in those that the corpus
            keeps, then in registered signals with default options.
    """

    def __init__(self, config: Any, rules: Sequence[Rule], own: Sequence[Signal]) -> None:
        super().__init__(config)
        self.rules, self._own = rules, own
        self._given: Sequence[Signal] = ()
        self._found: dict[str, Signal] | None = None

    def use_signals(self, signals: Sequence[Signal]) -> None:
        """Receive the signals of the corpus: a column that none of the filter's own has is looked for in these."""
        self._given, self._found = of_documents(signals), None

    def signals(self) -> list[Signal]:
        """Return the signals that the rules compare, each once.

        Raises:
            ConfigError: no signal has the column of a rule.
        """
        return list({signal.key: signal for signal in self._by_column().values()}.values())

    def _by_column(self) -> dict[str, Signal]:
        if self._found is None:
            known = (*self._own, *self._given)
            self._found = {
                rule.signal: find_signal(rule.signal, known, f"filter {self.label!r}") for rule in self.rules
            }
        return self._found

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        found = verdicts(len(batch), *(self._outside(batch, rule) for rule in self.rules))
        self._take_counts()
        return found

    def _take_counts(self) -> None:
        """Take the counts of the signals that the filter has measured itself."""
        for signal in self._measured_here():
            self.tally.update({f"{signal.name}.{name}": count for name, count in signal.tally.items()})
            signal.tally.clear()

    def _measured_here(self) -> list[Signal]:
        """Return the signals that the corpus does not keep: their counts are the filter's."""
        given = {id(signal) for signal in self._given}
        return [signal for signal in self.signals() if id(signal) not in given]

    def _outside(self, batch: TextBatch, rule: Rule) -> tuple[NDArray[np.bool_], str]:
        return rule.outside(self._values(batch, rule.signal)), rule.reason or rule.signal

    def _values(self, batch: TextBatch, column: str) -> NDArray[np.float32]:
        return batch.measured(self._by_column()[column])[column].astype(np.float32)

    def measure_all(self, batch: TextBatch) -> list[dict[str, float]]:
        """Return the signals that the rules compare. One that is equal to its limit in 32 bits is the limit."""
        limits = self.thresholds()
        values = {column: self._values(batch, column) for column in limits}
        return [
            {name: _shown(own[index], limits[name]) for name, own in values.items() if not np.isnan(own[index])}
            for index in range(len(batch))
        ]

    def thresholds(self) -> dict[str, Threshold]:
        """Return the limits by column; the narrowest, if several rules compare one column."""
        found = dict[str, Threshold]()
        for rule in self.rules:
            low, high = found.get(rule.signal, (None, None))
            least, most = _limits_as_given(rule)
            lows, highs = [x for x in (low, least) if x is not None], [x for x in (high, most) if x is not None]
            found[rule.signal] = (max(lows, default=None), min(highs, default=None))
        return found

    def close(self) -> None:
        """Close the filter's own signals."""
        for signal in self._own:
            signal.close()


def _limits_as_given(rule: Rule) -> Threshold:
    """Return the limits of a rule as they are written, or the next 32-bit value for an exclusive one."""
    low, high = rule.limits()
    least = rule.min if rule.above is None else float(low)
    most = rule.max if rule.below is None else float(high)
    return least, most


def _shown(value: np.float32, limits: Threshold) -> float:
    equal = [limit for limit in limits if limit is not None and np.float32(limit) == value]
    return equal[0] if equal else float(value)
