"""Filters that look at a document's lines, and can drop lines from one that stays."""

from __future__ import annotations

from typing import Any

from jprep.corpus.document import KEEP, Document, Verdict
from jprep.corpus.step import Count, Filter, Share, StepConfig


class SentenceEndFilter(Filter):
    """Finds what is no running text, such as menus and lists, by lines that end no sentence: `no_sentence_end`."""

    name = "sentence_end"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `sentence_end`.

        Attributes:
            marks: characters that a sentence may end in.
            min_share: least share of a document's lines that end in one.
            min_lines: lines that a document must have before `min_share` is asked of it.
            drop_lines: whether lines that end in none are dropped from documents that stay; headings go too.
        """

        marks: str = '。．｡！？!?…‥.」』）)”"♪☆★笑ｗw'
        min_share: Share = 0.05
        min_lines: Count = 10
        drop_lines: bool = False

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._marks = frozenset(self.config.marks)

    def judge(self, doc: Document) -> Verdict:
        """Keep the document, drop it, or drop lines."""
        lines = doc.text.split("\n")
        if len(lines) < self.config.min_lines and not self.config.drop_lines:
            return KEEP
        marks = self._marks
        full = [index for index, line in enumerate(lines) if line]
        unended = [index for index in full if lines[index].rstrip()[-1:] not in marks]
        ended = len(full) - len(unended)
        if len(full) >= self.config.min_lines and ended < self.config.min_share * len(full):
            return Verdict(False, "no_sentence_end")
        if not self.config.drop_lines or not unended:
            return KEEP
        return Verdict(True, "no_sentence_end", tuple(unended)) if ended else Verdict(False, "no_sentence_end")


class RepeatedLinesFilter(Filter):
    """Finds documents that say the same line again and again: `repeated_lines`."""

    name = "repeated_lines"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `repeated_lines`. A line counts as repeated from its second time on.

        Attributes:
            max_lines: largest share of lines that are repeated.
            max_chars: largest share of characters that stand in repeated lines.
            drop_repeats: whether repeated lines are dropped from documents that stay.
        """

        max_lines: Share = 0.4
        max_chars: Share = 0.3
        drop_repeats: bool = False

    def judge(self, doc: Document) -> Verdict:
        """Keep the document, drop it, or drop lines."""
        lines = doc.text.split("\n")
        if len(set(lines)) == len(lines):
            return KEEP
        repeats = _repeats(lines)
        full = sum(1 for line in lines if line)
        chars = len(doc.text) - len(lines) + 1
        repeated = sum(len(lines[index]) for index in repeats)
        if len(repeats) > self.config.max_lines * full or repeated > self.config.max_chars * chars:
            return Verdict(False, "repeated_lines")
        return Verdict(True, "repeated_lines", tuple(repeats)) if self.config.drop_repeats and repeats else KEEP


def _repeats(lines: list[str]) -> list[int]:
    """Indexes of lines that stood there before; empty lines only separate."""
    seen: set[str] = {""}
    # `add` answers None: a line is noted the first time it is asked for.
    return [index for index, line in enumerate(lines) if line and (line in seen or seen.add(line))]  # type: ignore[func-returns-value]
