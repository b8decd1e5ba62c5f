"""Count the characters of a text by kind, for filters that judge one document at a time."""

from __future__ import annotations

import functools
from typing import NamedTuple

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch


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
    rows = zip(batch.kind_counts.tolist(), batch.visible.tolist(), strict=True)
    return [
        CharacterKinds._make([katakana + hiragana, *others, visible])
        for (_, katakana, *others, hiragana), visible in rows
    ]
