"""Characters that are rare in Japanese prose and frequent in text of a wrong encoding."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.character_kinds import KINDS, kind_of_code_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVEL_1 = range(16, 48)  # rows of JIS X 0208
_CELLS = range(1, 95)
_OTHER_KANJI = "々〆〇"
_RANGES = (0xA1, 0x250), (0xE000, 0xF900), (0xFF61, 0xFFA0), (0xFFFD, 0xFFFE)
_USUAL = "°±´¶×÷éèöüäñ§µ²³"


@functools.cache
def is_unusual() -> NDArray[np.bool_]:
    """Return whether each code point is unusual, shape [0x110000].

    Unusual are kanji that are not in level 1 of JIS X 0208 (縺, 繧: UTF-8 that was read as Shift_JIS), accented Latin
    letters and the signs next to them, half-width katakana, private-use characters and U+FFFD.
    """
    table = np.equal(kind_of_code_points(), KINDS.index("kanji"))
    table[[ord(character) for character in _level_1() + _OTHER_KANJI]] = False
    for first, end in _RANGES:
        table[first:end] = True
    table[[ord(character) for character in _USUAL]] = False
    return table


def _level_1() -> str:
    pairs = bytes(0xA0 + place for row in _LEVEL_1 for cell in _CELLS for place in (row, cell))
    return pairs.decode("euc_jp", "ignore")
