"""Reduce text to what is compared: letters and digits without width, case and marks, as arrays of hashed characters."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np

from jprep.random.counter_bits import UInt64Array, mix

_PLANE = 1 << 16
_DROPPED, _SEVERAL = 0, 1  # values of the table that are no hash
SEPARATOR = np.uint64(2)
"""Stands between texts: no folded character has this value."""
BREAK = "\x00"
"""Becomes `SEPARATOR`. In a text it ends an n-gram as the end of the text does."""


def fold(text: str) -> UInt64Array:
    """Return a hash for each character that is compared.

    Characters are those of NFKD, in lower case, without marks (so that half-width kana with a voicing mark equal their
    one-character form), spaces, punctuation, symbols and controls.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    if not len(codes):
        return np.empty(0, np.uint64)
    table = _table(range(int(codes.max()) // _PLANE + 1), codes)
    hashes = table[codes]
    if (hashes == _SEVERAL).any():  # one character becomes several, such as ㍻ and ㎞
        return fold(_expanded(text))
    found: UInt64Array = hashes[hashes != _DROPPED]
    return found


def _table(planes: range, codes: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> UInt64Array:
    """Return a table that covers the codes: planes without a character in them are not made."""
    if len(planes) == 1:
        return _plane(0)
    used = set((np.unique(codes >> np.uint32(16))).tolist())
    return _joined(tuple(plane in used for plane in planes))


@cache
def _joined(used: tuple[bool, ...]) -> UInt64Array:
    empty: UInt64Array = np.zeros(_PLANE, np.uint64)
    return np.concatenate([_plane(number) if is_used else empty for number, is_used in enumerate(used)])


@cache
def _plane(number: int) -> UInt64Array:
    """Return the hash of each character of a plane of Unicode."""
    folded = [_folded(chr(code)) for code in range(number * _PLANE, (number + 1) * _PLANE)]
    values = np.array([ord(text) if len(text) == 1 else 0 for text in folded], np.uint64)
    table = np.where(values > 0, mix(values + np.uint64(1 << 32)), np.uint64(_DROPPED))
    table[[len(text) > 1 for text in folded]] = _SEVERAL
    if number == 0:
        table[ord(BREAK)] = SEPARATOR
    return table


def _folded(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character).casefold()
    return "".join(part for part in unicodedata.normalize("NFKD", parts) if unicodedata.category(part)[0] in "LN")


def _expanded(text: str) -> str:
    return "".join(folded if len(folded := _folded_once(c)) > 1 else c for c in text)


@cache
def _folded_once(character: str) -> str:
    return _folded(character)
