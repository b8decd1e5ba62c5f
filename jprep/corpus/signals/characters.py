"""Signals about the length and the scripts of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import DIGIT, HIRAGANA, KANJI, KATAKANA, LATIN, PUNCTUATION, SYMBOL
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHARES = {
    "japanese_share": [HIRAGANA, KATAKANA, KANJI],
    "kana_share": [HIRAGANA, KATAKANA],
    "hiragana_share": [HIRAGANA],
    "katakana_share": [KATAKANA],
    "kanji_share": [KANJI],
    "latin_share": [LATIN],
    "symbol_share": [SYMBOL],
    "punctuation_share": [PUNCTUATION],
    "digit_share": [DIGIT],
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
        found = {"characters": batch.lengths.astype("float64"), "sentences": batch.counts(batch.sentence_docs)}
        for column, kinds in _SHARES.items():
            found[column] = share(batch.kind_counts[:, kinds].sum(1), batch.visible)
        return found
