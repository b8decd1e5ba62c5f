"""Signals of Swallow Corpus Version 1, by the definitions of its quality.py. Cheap: letters and sentences."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import CODE_POINTS, table_of, white_space
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENTENCE_ENDS = "。．！？!?"
"""What ends a sentence; each line ends one too."""
_LETTERS = {
    "hiragana": "ぁ-ゖ",
    "katakana": "ァ-ヺ",
    "kanji": "々-々〇-〇〻-〻\u3400-\u9fff\uf900-\ufaff",  # without the planes above the first, as in the original
    "mark": "、-、，-，。-。．-．！-！？-？",
}
_ELLIPSES = "・…"


class SwallowLetters(Signal):
    """Letters as Swallow counts them.

    Columns: `swallow_letters`, all characters with line feeds; `swallow_japanese_letters`: hiragana, katakana (without
    the long-vowel mark), kanji of the first plane and 、，。．！？; `swallow_japanese_share` of all letters;
    `swallow_hiragana_share` and `swallow_katakana_share` of the Japanese ones. A share of nothing is 0.
    """

    name = "swallow_letters"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        letters = ("swallow_letters", "swallow_japanese_letters")
        return (*letters, "swallow_japanese_share", "swallow_hiragana_share", "swallow_katakana_share")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        size = len(_LETTERS) + 1
        cells = batch.doc_of_code * size + _letter_kinds()[batch.codes]
        counts = np.bincount(cells, minlength=len(batch) * size).reshape(-1, size)
        japanese = counts[:, 1:].sum(1)
        values = (
            batch.lengths.astype(np.float64),
            japanese.astype(np.float64),
            ratio(japanese, batch.lengths),
            ratio(counts[:, 1], japanese),
            ratio(counts[:, 2], japanese),
        )
        return dict(zip(self.columns, values, strict=True))


class SwallowSentences(Signal):
    """Sentences as Swallow finds them: what ends with a line or one of 。．！？!?; further such marks are left out.

    Columns: `swallow_mean_sentence` and `swallow_longest_sentence` in characters with the mark, NaN without sentences;
    `swallow_ellipsis_share`: the fraction of sentences that end in … or ・, white space aside.
    """

    name = "swallow_sentences"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("swallow_mean_sentence", "swallow_longest_sentence", "swallow_ellipsis_share")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        found = find_sentences(batch)
        count = batch.counts(found.docs)
        lengths = found.ends - found.starts
        longest = np.zeros(len(batch))
        np.maximum.at(longest, found.docs, lengths)
        ellipses = batch.counts(found.docs, _ends_in_ellipsis(batch, found))
        return {
            "swallow_mean_sentence": share(batch.counts(found.docs, lengths), count),
            "swallow_longest_sentence": np.where(count > 0, longest, np.nan),
            "swallow_ellipsis_share": ratio(ellipses, count),
        }


class Sentences(NamedTuple):
    """Where sentences are in `TextBatch.codes`, in order, each of shape [sentences].

    Attributes:
        starts: the first character.
        ends: after the last character, which can be a mark of `SENTENCE_ENDS`.
        docs: the index of the document.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    docs: NDArray[np.int64]


def find_sentences(batch: TextBatch) -> Sentences:
    """Return the sentences of a batch: runs of characters other than marks and line feeds, and one mark after each."""
    kinds = _sentence_kinds()[batch.codes]
    inside = np.concatenate([[False], kinds == 0, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, ends = edges[::2], edges[1::2]
    # A run never reaches the end of `codes`, since a line feed stands after each text.
    return Sentences(starts, ends + (kinds[ends] == 1), batch.doc_of_code[starts])


def _ends_in_ellipsis(batch: TextBatch, found: Sentences) -> NDArray[np.bool_]:
    visible = np.flatnonzero(~white_space()[batch.codes])
    before = np.searchsorted(visible, found.ends) - 1
    last = visible[np.maximum(before, 0)] if len(visible) else found.starts - 1
    marks = np.isin(batch.codes[last], [ord(mark) for mark in _ELLIPSES])
    ends: NDArray[np.bool_] = marks & (last >= found.starts) & (before >= 0)
    return ends


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return `part / whole`, and 0 where there is nothing to divide by, as the published programs have it."""
    return np.nan_to_num(share(part, whole))


@functools.cache
def _letter_kinds() -> NDArray[np.uint8]:
    """Return the kind of each code point: 0, or an index of `_LETTERS` from 1."""
    table = np.zeros(CODE_POINTS, np.uint8)
    for kind, ranges in enumerate(_LETTERS.values(), 1):
        for first, last in zip(ranges[::3], ranges[2::3], strict=True):
            table[ord(first) : ord(last) + 1] = kind
    return table


@functools.cache
def _sentence_kinds() -> NDArray[np.uint8]:
    """Return for each code point 1 if it ends a sentence, 2 for a line feed, else 0."""
    table = table_of(SENTENCE_ENDS).astype(np.uint8)
    table[ord("\n")] = 2
    return table
