"""Count the characters of a text by kind, once for all filters."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KINDS = ("blank", "kana", "kanji", "latin", "digit", "punctuation", "symbol", "other")
_KANJI = re.compile("[々〆〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ud840-\ud88d]")
_KANA = re.compile("[ぁ-ゖゝゞァ-ヺーヽヾㇰ-ㇿｦ-ﾟ]")
_PUNCTUATION = frozenset("、。，．,.「」『』（）()！？!?・…‥ー〜～：:；;\"'“”‘’［］[]【】〈〉《》-")
_SURROGATES = re.compile("[\ud800-\udfff]")


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
    """Count the characters of a text by kind. The last result is cached, since several filters need it."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    counts = np.bincount(kind_of_code_units().take(units), minlength=len(_KINDS)).tolist()
    return CharacterKinds._make([*counts[1:], sum(counts[1:])])


@functools.cache
def kind_of_code_units() -> NDArray[np.uint8]:
    """Return the kind of each UTF-16 code unit (uint8, shape [65536])."""
    kinds = [_KINDS.index(_kind(chr(unit))) for unit in range(1 << 16)]
    return np.array(kinds, dtype=np.uint8)


def _kind(char: str) -> str:
    category = unicodedata.category(char)
    if _KANJI.match(char):
        return "kanji"
    if _KANA.match(char):
        return "kana"
    if _SURROGATES.match(char):
        # The first half of a pair gives the kind (kanji, or nearly always emoji); the second half must not count.
        return "symbol" if char < "\udc00" else "blank"
    if (category[0] in "ZC" and category != "Co") or category[0] == "M":
        return "blank"
    if category[0] == "N":
        return "digit" if category == "Nd" else "symbol"
    if category[0] == "L":
        return "latin" if "LATIN" in unicodedata.name(char, "") else "other"
    return "punctuation" if char in _PUNCTUATION else "symbol"
