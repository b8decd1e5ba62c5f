"""The filter `line_threshold`: one signal, measured of each line, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.document import Verdict
from jprep.corpus.filters.thresholds import ThresholdFilter
from jprep.corpus.filters.verdicts import add_dropped_lines, verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.per_line import of_documents, of_lines
from jprep.corpus.step import Signal, Threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LineThresholdFilter(ThresholdFilter):
    """Drops lines by one signal. In a recipe: `{ signal = "latin_share", max = 0.9, per = "line" }`.

    A blank line, and one to which the signal does not apply, are kept. A document without another line is dropped as
    a whole. Lines outside the limits and their characters are counted as `REASON.lines` and `REASON.characters`, also
    those of such documents.
    """

    name = "line_threshold"
    version = 1

    class Config(ThresholdFilter.Config, frozen=True):
        """Options of the filter `line_threshold`: those of `threshold`."""

    def use_signals(self, signals: Sequence[Signal]) -> None:
        """Receive the signals of the corpus: those that it keeps of lines come first."""
        super().use_signals([*of_lines(signals), *of_documents(signals)])

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return which lines of each document to drop."""
        lines = batch.per_line
        outside, reason = self._outside(lines, self.rules[0])
        visible = np.array([bool(text) and not text.isspace() for text in lines.texts], bool)
        outside &= visible
        self._take_counts()
        self._count(lines, outside, reason)
        left = batch.counts(batch.line_docs[visible & ~outside])
        found = verdicts(len(batch), ((left == 0) & (batch.counts(batch.line_docs[outside]) > 0), reason))
        add_dropped_lines(found, batch, outside, reason)
        return found

    def _count(self, lines: TextBatch, outside: NDArray[np.bool_], reason: str) -> None:
        if outside.any():
            self.tally[f"{reason}.lines"] += int(np.count_nonzero(outside))
            self.tally[f"{reason}.characters"] += int(lines.lengths[outside].sum())

    def thresholds(self) -> dict[str, Threshold]:
        """Return nothing: the signal of the document as a whole decides nothing."""
        return {}
