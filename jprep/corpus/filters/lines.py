"""Filters on the lines of a document. They reject documents, and can drop lines from documents that are kept."""

from __future__ import annotations

import numpy as np

from jprep.corpus.document import Verdict
from jprep.corpus.filters.measures import Measure, MeasureFilter
from jprep.corpus.filters.verdicts import add_dropped_lines
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.lines import MIN_LINES, SENTENCE_END_MARKS, count_lines, ended_lines
from jprep.corpus.step import Count, Share, StepConfig


class SentenceEndFilter(MeasureFilter):
    """Rejects menus and lists, by the fraction of lines that end a sentence. Reason: `no_sentence_end`."""

    name = "sentence_end"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `sentence_end`.

        Attributes:
            marks: characters that can end a sentence.
            min_share: minimum fraction of lines that end in one of the marks.
            min_lines: minimum number of lines for `min_share` to apply.
            drop_lines: whether to drop lines that do not end a sentence, including headings, from documents that are
                kept.
        """

        marks: str = SENTENCE_END_MARKS
        min_share: Share = 0.05
        min_lines: Count = MIN_LINES
        drop_lines: bool = False

    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return how many lines end a sentence, and their fraction where there are enough lines for its threshold.

        With `drop_lines`, a document must have a line that ends a sentence.
        """
        config, reason = self.config, "no_sentence_end"
        lines, _ = count_lines(batch, batch.line_lengths > 0)
        ended, _ = count_lines(batch, ended_lines(batch, config.marks))
        ended_of_any = np.where(lines > 0, ended, np.nan)  # NaN: a document without lines
        least = 1 if config.drop_lines else None
        enough = np.where(lines >= config.min_lines, lines, 0)
        return [
            Measure("sentence_ends", reason, ended_of_any, None, least=least),
            Measure("sentence_end_share", reason, ended, enough, least=config.min_share),
        ]

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch, and which lines to drop."""
        found = super().judge_all(batch)
        if self.config.drop_lines:
            unended = (batch.line_lengths > 0) & ~ended_lines(batch, self.config.marks)
            add_dropped_lines(found, batch, unended, "no_sentence_end")
        return found


class RepeatedLinesFilter(MeasureFilter):
    """Rejects documents that repeat the same lines. Reason: `repeated_lines`."""

    name = "repeated_lines"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `repeated_lines`. A line is repeated from its second occurrence on.

        Attributes:
            max_lines: maximum fraction of repeated lines.
            max_chars: maximum fraction of characters in repeated lines.
            drop_repeats: whether to drop repeated lines from documents that are kept.
        """

        max_lines: Share = 0.4
        max_chars: Share = 0.3
        drop_repeats: bool = False

    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return the fractions of repeated lines and of their characters."""
        config, reason = self.config, "repeated_lines"
        lines, characters = count_lines(batch, batch.line_lengths > 0)
        repeated, repeated_characters = count_lines(batch, batch.repeated_lines)
        return [
            Measure("repeated_line_share", reason, repeated, lines, most=config.max_lines),
            Measure("repeated_character_share", reason, repeated_characters, characters, most=config.max_chars),
        ]

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch, and which lines to drop."""
        found = super().judge_all(batch)
        if self.config.drop_repeats:
            add_dropped_lines(found, batch, batch.repeated_lines, "repeated_lines")
        return found
