"""Count the characters of texts by kind."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.character_kinds import (
    DIGIT,
    HIRAGANA,
    KANJI,
    KATAKANA,
    LATIN,
    OTHER,
    PUNCTUATION,
    SYMBOL,
)


class CharacterKinds(NamedTuple):
    """Number of characters of each kind. A character outside the BMP counts once.

    Attributes:
        kana: hiragana and katakana, full and half width, including the long-vowel mark.
        kanji: Chinese characters, including 々〆〇.
        latin: letters a to z, including full-width and accented forms.
        digit: decimal digits, including full-width ones.
        punctuation: common punctuation of Japanese and English sentences, and brackets.
        symbol: other punctuation, symbols, emoji, private-use characters.
        other: letters of other scripts.
        visible: sum of all kinds above; white space and combining characters are not counted.
    """

    kana: int
    kanji: int
    latin: int
    digit: int
    punctuation: int
    symbol: int
    other: int
    visible: int


@functools.lru_cache(maxsize=1)
def count_characters(text: str) -> CharacterKinds:
    """Count the characters of a text by kind. The last result is cached, since several filters may need it."""
    return count_kinds(TextBatch([Document("", "", "", "", text)]))[0]


def count_kinds(batch: TextBatch) -> list[CharacterKinds]:
    """Return the characters of each document of a batch by kind."""
    counts = batch.kind_counts
    others = [counts[:, kind] for kind in (KANJI, LATIN, DIGIT, PUNCTUATION, SYMBOL, OTHER)]
    columns = [counts[:, HIRAGANA] + counts[:, KATAKANA], *others, batch.visible]
    return [CharacterKinds._make(row) for row in np.column_stack(columns).tolist()]
