"""Hashes of all n-grams of an array of hashed characters, by a few vectorised steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jprep.random.counter_bits import GOLDEN, UInt64Array

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

GRAM = 12
"""Characters of an n-gram of a long text."""
ANCHOR = 8
"""Characters by which a short text is first looked for, and that it must have at least."""

_BASE = GOLDEN | 1  # odd: multiplication is a bijection


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(_BASE, exponent, 1 << 64))


def gram_hashes(characters: UInt64Array) -> tuple[UInt64Array, UInt64Array]:
    """Return the hashes of all n-grams of `ANCHOR` and of `GRAM` characters; each array ends with the last full one."""
    twos = characters[:-1] * _power(1) + characters[1:]
    fours = twos[:-2] * _power(2) + twos[2:]
    eights = fours[:-4] * _power(4) + fours[4:]
    return eights, eights[:-4] * _power(4) + fours[8:]


def span_hash(characters: UInt64Array) -> int:
    """Return the hash of a whole array, as `gram_hashes` hashes an n-gram of its length."""
    value = 0
    for character in characters.tolist():
        value = (value * _BASE + character) % (1 << 64)
    return value


def longer_hashes(characters: UInt64Array, anchors: UInt64Array, starts: Integers, length: int) -> UInt64Array:
    """Return the hashes of the n-grams of a length that begin at some places.

    Args:
        characters: all characters.
        anchors: `gram_hashes(characters)[0]`.
        starts: places, each at least `length` before the end.
        length: at least `ANCHOR`.
    """
    found: UInt64Array = anchors[starts]
    for offset in range(ANCHOR, length):
        found = found * _power(1) + characters[starts + offset]
    return found


def spans_hashes(characters: UInt64Array, starts: Integers, length: int) -> UInt64Array:
    """Return `span_hash` of the spans of a length that begin at some places, each at least `length` before the end."""
    found = np.zeros(len(starts), np.uint64)
    for offset in range(length):
        found = found * _power(1) + characters[starts + offset]
    return found


def short_hashes(characters: UInt64Array, length: int) -> UInt64Array:
    """Return `span_hash` of all spans of a length of at least 1, in order."""
    size = max(0, len(characters) - length + 1)
    found: UInt64Array = characters[:size]
    for offset in range(1, length):
        found = found * _power(1)
        found += characters[offset : offset + size]
    return found


class HashSet:
    """A set of hashes that tells quickly for many others where they are in it.

    Args:
        hashes: any number, in any order.

    Attributes:
        sorted: the hashes in order, each once.
    """

    def __init__(self, hashes: Sequence[int] | UInt64Array) -> None:
        self.sorted: UInt64Array = np.unique(np.array(hashes, np.uint64))
        bits = min(27, max(10, (16 * len(self.sorted)).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._seen = np.zeros(1 << bits, np.bool_)
        self._seen[self.sorted >> self._shift] = True

    def find(self, hashes: UInt64Array) -> tuple[Integers, Integers]:
        """Return the indices of the hashes that are in the set, and where they are in `sorted`."""
        if not len(self.sorted):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places = np.flatnonzero(self._seen[hashes >> self._shift])
        candidates = hashes[places]
        ranks = np.minimum(np.searchsorted(self.sorted, candidates), len(self.sorted) - 1)
        equal = self.sorted[ranks] == candidates
        return places[equal], ranks[equal]


def without_repeats(places: Integers, hashes: UInt64Array) -> tuple[Integers, UInt64Array]:
    """Return n-grams, sorted by hash and place, without the inner ones where one overlaps with itself, as in a run.

    A run of one character has each n-gram of it at every place, and each of them is in many places of many items.
    """
    order = np.lexsort((places, hashes))
    places, hashes = places[order], hashes[order]
    overlaps = (np.diff(places) < ANCHOR) & (hashes[1:] == hashes[:-1])
    kept = np.ones(len(places), np.bool_)
    kept[1:-1] = ~(overlaps[:-1] & overlaps[1:])
    return places[kept], hashes[kept]
