"""Signals about the lines of a document: how they end, and which occur again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import table_of, white_space
from jprep.corpus.step import Count, Signal, StepConfig
from jprep.random.counter_bits import GOLDEN

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
        filled = batch.line_lengths > 0
        lines = batch.counts(batch.line_docs[filled])
        ended = batch.counts(batch.line_docs, ended_lines(batch, self.config.marks))
        repeated, characters = _repeated(batch)
        return {
            "sentence_end_share": share(ended, np.where(lines >= self.config.min_lines, lines, 0)),
            "repeated_line_share": share(repeated, lines),
            "repeated_character_share": share(characters, batch.counts(batch.line_docs, batch.line_lengths)),
        }


def ended_lines(batch: TextBatch, marks: str) -> NDArray[np.bool_]:
    """Return whether each line of a batch ends in one of some characters, white space after it aside."""
    filled = np.flatnonzero(batch.line_lengths)
    last = batch.codes[batch.line_starts[1:][filled] - 2]
    ended = np.zeros(len(batch.line_lengths), bool)
    ended[filled] = table_of(marks)[last]
    for line in filled[white_space()[last]].tolist():
        ended[line] = batch.line(line).rstrip()[-1:] in frozenset(marks)
    return ended


def repeats(lines: list[str]) -> list[int]:
    """Return the indexes of lines that occurred before. Empty lines are ignored."""
    seen, repeated = set[str](), list[int]()
    for index, line in enumerate(lines):
        if line in seen:
            repeated.append(index)
        elif line:
            seen.add(line)
    return repeated


def _repeated(batch: TextBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of repeated lines of each document, and the characters in them."""
    first, again = _pairs_of_equal_hash(batch)
    different = again[~_equal(batch, first, again)]
    docs = batch.line_docs[again]
    lines, characters = batch.counts(docs), batch.counts(docs, batch.line_lengths[again])
    for doc in set(batch.line_docs[different].tolist()):  # unequal lines of the same hash
        own = batch.texts[doc].split("\n")
        found = repeats(own)
        lines[doc], characters[doc] = len(found), sum(len(own[index]) for index in found)
    return lines, characters


def _pairs_of_equal_hash(batch: TextBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lines of whose hash the same document has an earlier one, and the first such line of each."""
    filled = np.flatnonzero(batch.line_lengths)
    keys = batch.line_hashes[filled] ^ (batch.line_docs[filled].astype(np.uint64) * np.uint64(GOLDEN))
    order = np.argsort(keys)
    ordered = keys[order]
    groups = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(order)])
    sizes = np.diff(np.append(groups, len(order)))
    first = np.repeat(np.minimum.reduceat(order, groups) if len(groups) else order, sizes)
    again = first != order
    return filled[first[again]], filled[order[again]]


def _equal(batch: TextBatch, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the lines of each pair are equal and of the same document; none is empty."""
    lengths = batch.line_lengths[second]
    same: NDArray[np.bool_] = (lengths == batch.line_lengths[first]) & (
        batch.line_docs[first] == batch.line_docs[second]
    )
    first, second, lengths = first[same], second[same], lengths[same]
    begins = np.cumsum(lengths) - lengths
    inside = np.arange(lengths.sum()) - np.repeat(begins, lengths)
    left = batch.codes[np.repeat(batch.line_starts[first], lengths) + inside]
    right = batch.codes[np.repeat(batch.line_starts[second], lengths) + inside]
    if len(begins):
        same[same] = np.logical_and.reduceat(left == right, begins)
    return same
