"""Decide again about boundaries with a small sum, given the words that the decisions about their neighbours make.

The first sums see characters and dictionary words, but not which words the sentence falls into. Around a boundary in
doubt that is known nearly always: its features are the strings from the last boundary before it and up to the next one
after it, the words beyond these, and the first sum itself. About 3 % of the boundaries are looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from jprep.corpus.segmenters.pointwise.characters import KIND
from jprep.corpus.segmenters.pointwise.hashing import STEP, mixed, top

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARGIN = 32
"""Boundaries whose first sum is nearer to 0 are decided again."""

FEATURES = 10
"""Features of such a boundary; each has a table of its own."""

MAX_SECOND = 127
"""Largest absolute weight of them."""

LONGEST_STRING = 10
"""Characters of a word that are looked at."""

SUM_STEP = 8
SALT = 64


class Doubts(msgspec.Struct, frozen=True):
    """The boundaries in doubt.

    Attributes:
        places: indices of the characters that they are in front of, shape [doubts].
        index: indices into the tables, shape [FEATURES, doubts].
    """

    places: NDArray[np.intp]
    index: NDArray[np.intp]


def find_doubts(symbols: NDArray[np.uint32], sums: NDArray[np.int16], ruled: NDArray[np.bool_], bits: int) -> Doubts:
    """Return the boundaries of padded texts that have to be decided again, and their features.

    Args:
        symbols: the characters with pads at both ends and between texts, see `symbols_of`.
        sums: the first sums of the boundaries in front of all characters.
        ruled: boundaries that a rule decides: pads, starts of texts, white space.
        bits: each table has 2 ** bits weights.
    """
    places = np.flatnonzero((np.abs(sums) < MARGIN) & ~ruled)
    begins = (sums > 0) | ruled
    left, start = _read(symbols, begins, places, -1)
    beyond_left, _ = _read(symbols, begins, start, -1)
    right, end = _read(symbols, begins, places, 1)
    beyond_right, _ = _read(symbols, begins, end, 1)
    both = mixed(left, 1) + right
    lengths = ((places - start) * LONGEST_STRING + (end - places)).astype(np.uint32)
    sum_class = (sums[places] // SUM_STEP + MARGIN // SUM_STEP).astype(np.uint32)
    strings = (
        both,
        left,
        right,
        mixed(beyond_left, 2) + both,
        mixed(both, 3) + beyond_right,
        mixed(beyond_left, 4) + left,
        mixed(right, 5) + beyond_right,
        sum_class,
        (sum_class << np.uint32(16)) | lengths,
        (sum_class << np.uint32(16)) | _kinds_around(symbols, places),
    )
    index = [top(mixed(mixed(each, SALT + n), SALT), bits) for n, each in enumerate(strings)]
    return Doubts(places, np.array(index, np.intp).reshape(FEATURES, -1))


def _read(
    symbols: NDArray[np.uint32], begins: NDArray[np.bool_], places: NDArray[np.intp], step: int
) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """Return the hashes of the words on one side of some boundaries, and the boundaries after these words.

    A word has at least one character, which may be a pad, and at most `LONGEST_STRING`.

    Args:
        symbols: see `find_doubts`.
        begins: whether a word begins at each character.
        places: the boundaries.
        step: 1 for the words that begin there, -1 for those that end there, which are read backwards.
    """
    hashed, reached, live = np.zeros(len(places), np.uint32), places.copy(), np.arange(len(places))
    for _ in range(LONGEST_STRING):
        hashed[live] = hashed[live] * STEP + (symbols[reached[live] + min(step, 0)] + np.uint32(1))
        reached[live] += step
        live = live[~begins[reached[live]]]
    return hashed, reached


def _kinds_around(symbols: NDArray[np.uint32], places: NDArray[np.intp]) -> NDArray[np.uint32]:
    """Return the kinds of the two characters on each side of some boundaries."""
    found = np.zeros(len(places), np.uint32)
    for offset in (-2, -1, 0, 1):
        found = (found << np.uint32(3)) | (symbols[places + offset] & KIND)
    return found
