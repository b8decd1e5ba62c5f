"""Signals about the lines of a document: how they end, and which occur again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import table_of, white_space
from jprep.corpus.step import Count, Signal, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray


SENTENCE_END_MARKS = '。．｡！？!?…‥.」』）)”"♪☆★笑ｗw'
"""Characters that can end a sentence."""
MIN_LINES = 10
"""Lines that a document needs for the fraction of its lines that end a sentence to mean something."""


class LineSignals(Signal):
    """How lines end, and which occur again.

    Columns: `sentence_end_share`, the fraction of lines that end a sentence; `repeated_line_share` and
    `repeated_character_share`, the fraction of lines that occurred before in the document, and of characters in them.
    Empty lines do not count; no column applies to a document without lines.
    """

    name = "lines"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the signal `lines`.

        Attributes:
            marks: characters that can end a sentence.
            min_lines: lines that a document needs for `sentence_end_share` to apply.
        """

        marks: str = SENTENCE_END_MARKS
        min_lines: Count = MIN_LINES

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("sentence_end_share", "repeated_line_share", "repeated_character_share")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        lines, characters = count_lines(batch, batch.line_lengths > 0)
        ended, _ = count_lines(batch, ended_lines(batch, self.config.marks))
        repeated, repeated_characters = count_lines(batch, batch.repeated_lines)
        return {
            "sentence_end_share": share(ended, np.where(lines >= self.config.min_lines, lines, 0)),
            "repeated_line_share": share(repeated, lines),
            "repeated_character_share": share(repeated_characters, characters),
        }


def count_lines(batch: TextBatch, which: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many of some lines each document of a batch has, and the number of characters in them."""
    docs = batch.line_docs[which]
    return batch.counts(docs), batch.counts(docs, batch.line_lengths[which])


def ended_lines(batch: TextBatch, marks: str) -> NDArray[np.bool_]:
    """Return whether each line of a batch ends in one of some characters, white space after it aside."""
    filled = np.flatnonzero(batch.line_lengths)
    last = batch.codes[batch.line_starts[1:][filled] - 2]
    ended = np.zeros(len(batch.line_lengths), bool)
    ended[filled] = table_of(marks)[last]
    for line in filled[white_space()[last]].tolist():
        ended[line] = batch.line(line).rstrip()[-1:] in frozenset(marks)
    return ended
