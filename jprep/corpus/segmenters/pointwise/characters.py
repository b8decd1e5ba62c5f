"""Map code points to what the model sees: a hash of the folded character, its kind, and whether it stands alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.segmenters.spaces import WHITE_SPACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

HALO = 8
"""Characters around a boundary that can have an influence on it, on each side: the longest word of the dictionary."""

PADS = 3
"""Pads between two texts: one fewer than characters in the longest n-gram."""

KIND = np.uint32(7)
"""Mask of the bits of a symbol that hold the kind of the character. A pad is 0, so 0 is no kind of a character."""

ALONE = np.uint32(8)
"""The bit of a symbol that is set for white space and control characters: they are words of their own."""

HIRAGANA, KATAKANA, KANJI, NUMERAL, DIGIT, LETTER, SIGN = range(1, 8)

ASTRAL_KANJI, ASTRAL = 0xFFFE, 0xFFFF
_FLAGS = np.uint32(15)
_RANGES = (
    (
        LETTER,
        ("AZ", "az", "\u00aa\u00aa", "\u00b5\u00b5", "\u00ba\u00ba", "\u00c0\u00d6", "\u00d8\u00f6", "\u00f8\u02ff"),
    ),
    (LETTER, ("\u0370\u1fff", "\u2c00\u2dff", "\ua000\uabff", "\uac00\ud7ff", "\ufb00\ufdff", "\ufe70\ufefc")),
    (LETTER, ("\u1100\u11ff", "\u3105\u318f", "\uffa0\uffdc")),
    (HIRAGANA, ("ぁゖ", "\u3099ゟ")),
    (KATAKANA, ("ァヺ", "ーヿ", "ㇰㇿ", "ｦﾟ")),
    (KANJI, ("々〇", "〻〻", "\u3400\u4dbf", "\u4e00\u9fff", "\uf900\ufaff")),
    (DIGIT, ("09",)),
)
_NUMERALS = "〇一二三四五六七八九十百千万億兆"


def fold_codes(codes: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return an identifier of 16 bits for each code point: full-width ASCII is folded, rare planes are merged."""
    small = codes.astype(np.uint16)
    if len(codes) and codes.max() > ASTRAL:
        astral = codes > ASTRAL
        small[astral] = np.where((codes[astral] >> np.uint32(17)) == 1, ASTRAL_KANJI, ASTRAL)
    folded: NDArray[np.uint16] = _folded().take(small)
    return folded


def symbols_of(folded: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Return the symbol of each folded character: a hash with the kind and `ALONE` in its low bits; 0 for a pad."""
    found: NDArray[np.uint32] = _symbols().take(folded)
    return found


def pad_texts(folded: NDArray[np.uint16], lengths: NDArray[np.int64]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Put pads between texts, so that none has an influence on another, and `HALO` of them at both ends.

    Args:
        folded: the characters of all texts, see `fold_codes`.
        lengths: characters of each text, shape [texts].

    Returns:
        The padded texts, and the index there of each character.
    """
    places = np.arange(len(folded)) + np.repeat(HALO + PADS * np.arange(len(lengths)), lengths)
    padded = np.zeros(len(folded) + 2 * HALO + PADS * len(lengths), np.uint16)
    padded[places] = folded
    return padded, places


def decided_by_rule(symbols: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which boundaries are decided by a rule, in front of all characters.

    White space, control characters and pads are words of their own.
    """
    alone: NDArray[np.bool_] = ((symbols & ALONE) != 0) | (symbols == 0)
    found = alone.copy()
    found[1:] |= alone[:-1]
    return found


@functools.cache
def _folded() -> NDArray[np.uint16]:
    table = np.arange(1 << 16, dtype=np.uint16)
    table[ord("！") : ord("～") + 1] = np.arange(ord("!"), ord("~") + 1)
    table[0x3000] = ord(" ")
    table[0] = 1  # 0 is the pad; NUL is seen as another control character
    return table


@functools.cache
def _symbols() -> NDArray[np.uint32]:
    codes = np.arange(1 << 16, dtype=np.uint32)
    mixed = (codes ^ (codes >> np.uint32(7))) * np.uint32(0x9E3779B1)
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) & ~_FLAGS
    symbols = mixed | _kinds() | _alone()
    symbols[0] = 0
    return symbols


def _kinds() -> NDArray[np.uint32]:
    kinds = np.full(1 << 16, SIGN, np.uint32)
    for kind, first, last in _ranges():
        kinds[first : last + 1] = kind
    kinds[[ord(each) for each in _NUMERALS]] = NUMERAL
    kinds[ASTRAL_KANJI] = KANJI
    return kinds


def _ranges() -> Iterator[tuple[int, int, int]]:
    for kind, ranges in _RANGES:
        yield from ((kind, ord(each[0]), ord(each[1])) for each in ranges)


def _alone() -> NDArray[np.uint32]:
    alone = np.zeros(1 << 16, np.uint32)
    alone[:0x20] = alone[0x7F:0xA0] = ALONE
    alone[[ord(each) for each in re.findall(f"[{WHITE_SPACE}]", "".join(map(chr, range(1 << 16))))]] = ALONE
    return alone
