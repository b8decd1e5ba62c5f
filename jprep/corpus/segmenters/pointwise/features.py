"""Features of word boundaries, computed for a block of characters at a time.

The boundary in front of character i is described by

- the n-grams of 1 to 4 characters between i - 3 and i + 2. All n-grams that begin at the same character share one
  look-up per length: a row of a table holds a weight (a lane) for each distance to a boundary;
- five integers that index tables directly: the kinds of the six characters around; the lengths of dictionary words that
  begin and end at i; how far dictionary words that contain i reach; the longest of each with the kinds of the two
  neighbours; the same with the two neighbours themselves, hashed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.corpus.segmenters.pointwise.characters import HALO, KIND
from jprep.corpus.segmenters.pointwise.hashing import STEP, mixed, top

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 2
"""Increased when the same text gets other features."""

WINDOW = 3
"""Characters on each side of a boundary of which n-grams are features."""

LANES = (5, 5, 4, 3)
"""Distances to a boundary, by length of the n-gram: one that begins at i - 3 + k has the lane k of the boundary i. The
single character i + 2 has none."""

LONGEST = HALO
"""Characters of the longest word in the dictionary."""

PREFIX = np.uint8(1)
"""The bit of the dictionary for four characters that begin a longer word. Single characters are not words of it."""

NEXT = np.uint32(0xC2B2AE35)
KIND_BITS = 3
REACH_BITS = LONGEST - 1

Bits = Annotated[int, msgspec.Meta(ge=8, le=24)]


class FeatureConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the tables.

    Attributes:
        characters, pairs, triples, quadruples: n-grams of 1 to 4 characters are hashed to 2 ** bits rows.
        neighbours: the last of the direct features is hashed to 2 ** bits weights.
        words: the dictionary has 2 ** bits bytes; each holds a bit for every length, and `PREFIX`.
        second: each feature of the second look is hashed to 2 ** bits weights.
    """

    characters: Bits = 16
    pairs: Bits = 18
    triples: Bits = 20
    quadruples: Bits = 20
    neighbours: Bits = 18
    words: Bits = 22
    second: Bits = 18

    @property
    def row_bits(self) -> tuple[int, ...]:
        """Binary logarithms of the numbers of rows, by length of the n-gram."""
        return self.characters, self.pairs, self.triples, self.quadruples

    @property
    def direct_bits(self) -> tuple[int, ...]:
        """Binary logarithms of the sizes of the tables for the direct features."""
        return 2 * WINDOW * KIND_BITS, 2 * LONGEST, 2 * REACH_BITS, 18, self.neighbours


class Features(msgspec.Struct, frozen=True):
    """The features of the boundaries of a block.

    Attributes:
        rows: for each length of n-grams the rows of those that begin from `WINDOW` characters before the first
            boundary to one after the last, shape [boundaries + LANES[0] - 1].
        direct: indices of the direct features, each of shape [boundaries].
    """

    rows: list[NDArray[np.intp]]
    direct: list[NDArray[np.intp]]


def extract_features(symbols: NDArray[np.uint32], words: NDArray[np.uint8], config: FeatureConfig) -> Features:
    """Return the features of the boundaries in front of all characters but the `HALO` ones at both ends.

    Args:
        symbols: the characters, see `symbols_of`, with `HALO` more at both ends.
        words: the dictionary, shape [2 ** config.words].
        config: sizes of the tables.
    """
    size = len(symbols) - 2 * HALO
    near = slice(HALO - WINDOW, HALO - WINDOW + size + LANES[0] - 1)
    rows, found = list[Any](), np.zeros(len(symbols) - LONGEST + 1, np.uint8)
    alive, begun = np.ones(len(found), np.uint8), found
    hashed = symbols[: len(found)].copy()
    for n, bits in enumerate(config.row_bits, 1):
        last = symbols[n - 1 : n - 1 + len(found)]
        if n > 1:
            _extend(hashed, last)
        alive &= last != 0
        salted = mixed(hashed, n)
        rows.append(top(salted[near], bits))
        if n > 1:
            begun = words.take(top(salted, config.words)) & (alive * (PREFIX | word_bit(n)))
            found |= begun & word_bit(n)
    _find_long_words(found, np.flatnonzero(begun & PREFIX), hashed, symbols, words, config)
    return Features(rows, _direct_features(symbols, found, size, config))


def word_bit(length: int) -> np.uint8:
    """Return the bit for words of some length, 1 to 8."""
    return np.uint8(1 << (length - 1))


def _find_long_words(
    found: NDArray[np.uint8],
    places: NDArray[np.intp],
    hashed: NDArray[np.uint32],
    symbols: NDArray[np.uint32],
    words: NDArray[np.uint8],
    config: FeatureConfig,
) -> None:
    """Add the bits of words of 5 to 8 characters, where the first four begin such a word."""
    hashed = hashed[places]
    for n in range(len(LANES) + 1, LONGEST + 1):
        last = symbols[places + (n - 1)]
        alive = last != 0
        places, hashed = places[alive], hashed[alive]
        _extend(hashed, last[alive])
        found[places] |= words.take(top(mixed(hashed, n), config.words)) & word_bit(n)


def hash_words(symbols: NDArray[np.uint32], config: FeatureConfig) -> NDArray[np.intp]:
    """Return the index of words of equal length in the dictionary.

    Args:
        symbols: their characters, shape [words, length].
        config: sizes of the tables.
    """
    hashed = symbols[:, 0].copy()
    for n in range(1, symbols.shape[1]):
        _extend(hashed, symbols[:, n])
    return top(mixed(hashed, symbols.shape[1]), config.words)


def _direct_features(
    symbols: NDArray[np.uint32], found: NDArray[np.uint8], size: int, config: FeatureConfig
) -> list[NDArray[np.intp]]:
    """Return the indices of the direct features, given the lengths of the words that begin at each character."""
    kinds = symbols & KIND
    window = np.zeros(size, np.uint32)
    for offset in range(-WINDOW, WINDOW):
        window <<= np.uint32(KIND_BITS)
        window |= kinds[HALO + offset : HALO + offset + size]
    around = _words_around(found, size)
    longest = _longest_at().take(around[0]) | _longest_over().take(around[1])
    neighbours = (window >> np.uint32((WINDOW - 1) * KIND_BITS)) & np.uint32((1 << 2 * KIND_BITS) - 1)
    pair = symbols[HALO - 1 : HALO - 1 + size] * NEXT + symbols[HALO : HALO + size]
    pair = mixed(pair * STEP + longest, 0)
    coarse = (neighbours << np.uint32(12)) | longest
    return [window.astype(np.intp), *around, coarse.astype(np.intp), top(pair, config.neighbours)]


def _words_around(found: NDArray[np.uint8], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the words that begin and end at each boundary, and how far those that contain it reach, as bits.

    Args:
        found: bit n - 1 says that a word of n characters begins at a character.
        size: number of boundaries.
    """
    ending, right, left = (np.zeros(size, np.uint8) for _ in range(3))
    for n in range(1, LONGEST + 1):
        begun = found[HALO - n : HALO - n + size]
        ending |= begun & word_bit(n)
        beyond = begun >> np.uint8(n) if n < LONGEST else np.zeros(size, np.uint8)
        right |= beyond
        left |= (beyond != 0) * word_bit(n)
    at = found[HALO : HALO + size].astype(np.intp) | (ending.astype(np.intp) << LONGEST)
    return at, right.astype(np.intp) | (left.astype(np.intp) << REACH_BITS)


@functools.cache
def _longest_at() -> NDArray[np.uint32]:
    """Return the longest word that begins and ends, at most 7 characters each, by index of the second feature."""
    pairs = np.arange(1 << 2 * LONGEST)
    return _bit_length(pairs & ((1 << LONGEST) - 1)) | (_bit_length(pairs >> LONGEST) << np.uint32(3))


@functools.cache
def _longest_over() -> NDArray[np.uint32]:
    """Return how far containing words reach to the right and to the left, by index of the third feature."""
    pairs = np.arange(1 << 2 * REACH_BITS)
    right, left = _bit_length(pairs & ((1 << REACH_BITS) - 1)), _bit_length(pairs >> REACH_BITS)
    return (right << np.uint32(6)) | (left << np.uint32(9))


def _bit_length(values: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the number of bits of each value, at most 7."""
    found: NDArray[np.uint32] = np.sum([values >> n > 0 for n in range(7)], axis=0).astype(np.uint32)
    return found


def _extend(hashed: NDArray[np.uint32], symbols: NDArray[np.uint32]) -> None:
    """Make hashes of strings those of the strings with one more character."""
    hashed *= STEP
    hashed += symbols
