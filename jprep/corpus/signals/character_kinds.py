"""The kind of each code point, for numpy."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.filters.characters import kind_of_code_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("blank", "katakana", "kanji", "latin", "digit", "punctuation", "symbol", "other", "hiragana")
"""The kinds of `jprep.corpus.filters.characters`, where `kana` is divided. Katakana includes the long-vowel mark."""
BLANK, KATAKANA, KANJI, LATIN, DIGIT, PUNCTUATION, SYMBOL, OTHER, HIRAGANA = range(len(KINDS))

CODE_POINTS = 0x110000
_PLANE = 1 << 16
_SURROGATES = slice(0xD800, 0xDC00)
_PER_SURROGATE = 1 << 10
_HIRAGANA = (("ぁ", "ゖ"), ("ゝ", "ゞ"))


@functools.cache
def kind_of_code_points() -> NDArray[np.uint8]:
    """Return the kind of each code point as an index of `KINDS`, uint8, shape [0x110000].

    A character outside the first plane has the kind of the first half of its surrogate pair, as in
    `jprep.corpus.filters.characters.count_characters`.
    """
    units = kind_of_code_units().copy()
    for first, last in _HIRAGANA:
        units[ord(first) : ord(last) + 1] = HIRAGANA
    return np.concatenate([units[:_PLANE], np.repeat(units[_SURROGATES], _PER_SURROGATE)])


@functools.lru_cache(maxsize=16)
def table_of(characters: str) -> NDArray[np.bool_]:
    """Return whether each code point is one of some characters, shape [0x110000]."""
    table = np.zeros(CODE_POINTS, bool)
    table[[ord(character) for character in characters]] = True
    return table


@functools.cache
def white_space() -> NDArray[np.bool_]:
    """Return whether each code point is white space, as `str.isspace` says, shape [0x110000]."""
    return table_of("".join(character for character in map(chr, range(CODE_POINTS)) if character.isspace()))
