"""The kind of each code point, for numpy."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("blank", "katakana", "kanji", "latin", "digit", "punctuation", "symbol", "other", "hiragana")
"""The kinds of `jprep.corpus.filters.characters`, where `kana` is divided. Katakana includes the long-vowel mark."""
BLANK, KATAKANA, KANJI, LATIN, DIGIT, PUNCTUATION, SYMBOL, OTHER, HIRAGANA = range(len(KINDS))

CODE_POINTS = 0x110000
_PLANE = 1 << 16
_HIGH_SURROGATES = slice(0xD800, 0xDC00)
_PER_SURROGATE = 1 << 10
_KANJI = re.compile("[々〆〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ud840-\ud88d]")
_HIRAGANA = re.compile("[ぁ-ゖゝゞ]")
_KATAKANA = re.compile("[ァ-ヺーヽヾㇰ-ㇿｦ-ﾟ]")
_PUNCTUATION = frozenset("、。，．,.「」『』（）()！？!?・…‥ー〜～：:；;\"'“”‘’［］[]【】〈〉《》-")
_SURROGATES = re.compile("[\ud800-\udfff]")


@functools.cache
def kind_of_code_points() -> NDArray[np.uint8]:
    """Return the kind of each code point as an index of `KINDS`, uint8, shape [0x110000].

    A character outside the first plane has the kind of the first half of its surrogate pair.
    """
    units = np.array([_kind(chr(unit)) for unit in range(_PLANE)], np.uint8)
    return np.concatenate([units, np.repeat(units[_HIGH_SURROGATES], _PER_SURROGATE)])


def _kind(char: str) -> int:
    category = unicodedata.category(char)
    for pattern, kind in ((_KANJI, KANJI), (_HIRAGANA, HIRAGANA), (_KATAKANA, KATAKANA)):
        if pattern.match(char):
            return kind
    if _SURROGATES.match(char):
        # The first half of a pair gives the kind (kanji, or nearly always emoji); the second half must not count.
        return SYMBOL if char < "\udc00" else BLANK
    if (category[0] in "ZC" and category != "Co") or category[0] == "M":
        return BLANK
    if category[0] == "N":
        return DIGIT if category == "Nd" else SYMBOL
    if category[0] == "L":
        return LATIN if "LATIN" in unicodedata.name(char, "") else OTHER
    return PUNCTUATION if char in _PUNCTUATION else SYMBOL


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
