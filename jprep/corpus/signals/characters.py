"""Signals about the length and the scripts of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import KINDS
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHARES = {
    "japanese_share": ("hiragana", "katakana", "kanji"),
    "kana_share": ("hiragana", "katakana"),
    "hiragana_share": ("hiragana",),
    "katakana_share": ("katakana",),
    "kanji_share": ("kanji",),
    "latin_share": ("latin",),
    "symbol_share": ("symbol",),
    "punctuation_share": ("punctuation",),
    "digit_share": ("digit",),
}
"""Columns, and the kinds of character that each counts."""


class CharacterSignals(Signal):
    """Length and scripts.

    Columns: `characters` and `sentences` are counts; the others are fractions of all characters except white space, and
    do not apply to text that is only white space.
    """

    name = "characters"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("characters", "sentences", *_SHARES)

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        counts = batch.kind_counts
        visible = counts[:, 1:].sum(1)
        found = {"characters": batch.lengths.astype("float64"), "sentences": batch.counts(batch.sentence_docs)}
        for column, kinds in _SHARES.items():
            found[column] = share(counts[:, [KINDS.index(kind) for kind in kinds]].sum(1), visible)
        return found
