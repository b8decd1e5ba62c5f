"""Filters on the lines of a document. They reject documents, and can drop lines from documents that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jprep.corpus.document import KEEP, Document, Verdict
from jprep.corpus.filters.measures import fraction
from jprep.corpus.filters.verdicts import verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.lines import MIN_LINES, SENTENCE_END_MARKS, ended_lines, repeats
from jprep.corpus.step import Count, Filter, Share, StepConfig, Threshold

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SentenceEndFilter(Filter):
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

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._marks = frozenset(self.config.marks)

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document, and which lines to drop."""
        lines = doc.text.split("\n")
        if len(lines) < self.config.min_lines and not self.config.drop_lines:
            return KEEP
        marks = self._marks
        nonempty = [index for index, line in enumerate(lines) if line]
        unended = [index for index in nonempty if lines[index].rstrip()[-1:] not in marks]
        ended = len(nonempty) - len(unended)
        if len(nonempty) >= self.config.min_lines and ended < self.config.min_share * len(nonempty):
            return Verdict(False, "no_sentence_end")
        if not self.config.drop_lines or not unended:
            return KEEP
        return Verdict(True, "no_sentence_end", tuple(unended)) if ended else Verdict(False, "no_sentence_end")

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch, and which lines to drop."""
        if self.config.drop_lines:
            return super().judge_all(batch)
        lines, ended = batch.counts(batch.line_docs[batch.line_lengths > 0]), self._ended(batch)
        few = (lines >= self.config.min_lines) & (ended < self.config.min_share * lines)
        return verdicts(len(batch), (few, "no_sentence_end"))

    def _ended(self, batch: TextBatch) -> NDArray[np.float64]:
        return batch.counts(batch.line_docs, ended_lines(batch, self.config.marks))

    def measure(self, doc: Document) -> dict[str, float]:
        """Return how many lines end a sentence, and their fraction where there are enough lines for its threshold."""
        lines = [line for line in doc.text.split("\n") if line]
        ended = sum(1 for line in lines if line.rstrip()[-1:] in self._marks)
        if not lines:
            return {}
        if len(lines) < self.config.min_lines:
            return {"sentence_ends": ended}
        share = fraction(ended, len(lines), self.config.min_share)
        return {"sentence_ends": ended, "sentence_end_share": share}

    def thresholds(self) -> dict[str, Threshold]:
        """Return the smallest values; with `drop_lines`, a document must have a line that ends a sentence."""
        least = 1 if self.config.drop_lines else None
        return {"sentence_ends": (least, None), "sentence_end_share": (self.config.min_share, None)}


class RepeatedLinesFilter(Filter):
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

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document, and which lines to drop."""
        lines = doc.text.split("\n")
        if len(set(lines)) == len(lines):
            return KEEP
        repeated_at = repeats(lines)
        nonempty = sum(1 for line in lines if line)
        chars = len(doc.text) - len(lines) + 1
        repeated = sum(len(lines[index]) for index in repeated_at)
        if len(repeated_at) > self.config.max_lines * nonempty or repeated > self.config.max_chars * chars:
            return Verdict(False, "repeated_lines")
        return Verdict(True, "repeated_lines", tuple(repeated_at)) if self.config.drop_repeats and repeated_at else KEEP

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch, and which lines to drop."""
        return [self.judge(doc) if "\n" in doc.text else KEEP for doc in batch.docs]

    def measure(self, doc: Document) -> dict[str, float]:
        """Return the fractions of repeated lines and of their characters; nothing for text that is only line feeds."""
        lines = doc.text.split("\n")
        repeated_at, filled = repeats(lines), [line for line in lines if line]
        if not filled:
            return {}
        chars, repeated = sum(map(len, filled)), sum(len(lines[index]) for index in repeated_at)
        return {
            "repeated_line_share": fraction(len(repeated_at), len(filled), self.config.max_lines),
            "repeated_character_share": fraction(repeated, chars, self.config.max_chars),
        }

    def thresholds(self) -> dict[str, Threshold]:
        """Return the largest fractions."""
        config = self.config
        return {"repeated_line_share": (None, config.max_lines), "repeated_character_share": (None, config.max_chars)}
