"""Hash the character n-grams of texts to buckets."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from jprep.config import ConfigSection
from jprep.corpus.signals.character_kinds import CODE_POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1
"""Increased when the same text gets other buckets."""

_BLOCK = 1 << 15  # code points hashed at a time: all arrays of a block stay in the processor's cache
_STEP, _FINISH = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)
_WORD_BITS = 32


class NgramConfig(ConfigSection, frozen=True):
    """Which n-grams are features, and how many buckets they share.

    Attributes:
        shortest: characters in the shortest n-gram.
        longest: characters in the longest one.
        bits: the features are hashed to 2 ** bits buckets.
    """

    shortest: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
    longest: Annotated[int, msgspec.Meta(ge=1, le=8)] = 4
    bits: Annotated[int, msgspec.Meta(ge=8, le=24)] = 20

    @property
    def lengths(self) -> range:
        """The lengths of the n-grams."""
        return range(self.shortest, self.longest + 1)


class HashedBlock(msgspec.Struct):
    """The n-grams that begin in one stretch of the texts.

    Attributes:
        start: index of the first code point of the stretch.
        buckets: the bucket of the n-gram at each position, one array for each length.
        crossing: the positions of the n-grams that reach beyond the line feed after their text, one array for each
            length.
    """

    start: int
    buckets: list[NDArray[np.uint32]]
    crossing: list[NDArray[np.int64]]


def hash_ngrams(codes: NDArray[np.uint32], ends: NDArray[np.int64], config: NgramConfig) -> Iterator[HashedBlock]:
    """Yield the buckets of all n-grams, a block of positions at a time, so that memory is bounded.

    Width and case of Latin letters and the values of digits do not count.

    Args:
        codes: the code points of the texts, each followed by a line feed, see `TextBatch.codes`.
        ends: where each text and its line feed end, shape [texts]. An n-gram does not reach beyond its own text's end.
        config: the n-grams.
    """
    for start in range(0, len(codes), _BLOCK):
        size = min(_BLOCK, len(codes) - start)
        folded = _fold().take(codes[start : start + size + config.longest - 1])
        folded = np.concatenate([folded, np.zeros(size + config.longest - 1 - len(folded), np.uint32)])
        first, last = np.searchsorted(ends, [start + 1, start + size + config.longest])
        near = ends[first:last] - start
        yield HashedBlock(start, _buckets(folded, size, config), [_crossing(near, size, n) for n in config.lengths])


def count_ngrams(lengths: NDArray[np.int64], config: NgramConfig) -> NDArray[np.int64]:
    """Return the number of n-grams of each text, shape [texts]: at least 1, a divisor; 0 for an empty text.

    Args:
        lengths: characters of each text, without the line feed after it.
        config: the n-grams.
    """
    counts = sum(np.maximum(lengths + 2 - n, 0) for n in config.lengths)
    return np.where(lengths > 0, np.maximum(counts, 1), 0)


def _buckets(folded: NDArray[np.uint32], size: int, config: NgramConfig) -> list[NDArray[np.uint32]]:
    shift = np.uint32(_WORD_BITS - config.bits)
    hashed, found = folded[:size].copy(), []
    for n in range(1, config.longest + 1):
        if n > 1:
            hashed *= _STEP
            hashed += folded[n - 1 : n - 1 + size]
        if n >= config.shortest:
            mixed = hashed ^ (hashed >> np.uint32(15))
            mixed += np.uint32(n)
            mixed *= _FINISH
            mixed >>= shift
            found.append(mixed)
    return found


def _crossing(ends: NDArray[np.int64], size: int, n: int) -> NDArray[np.int64]:
    """Return the n-grams that reach beyond the end of a text, given the ends relative to the block."""
    crossing: NDArray[np.int64] = (ends - np.arange(1, n)[:, None]).ravel()
    return crossing[(crossing >= 0) & (crossing < size)]


@functools.cache
def _fold() -> NDArray[np.uint32]:
    """Return the code point that stands for each code point, shape [0x110000]."""
    table = np.arange(CODE_POINTS, dtype=np.uint32)
    wide = slice(ord("！"), ord("～") + 1)
    table[wide] = np.arange(ord("!"), ord("~") + 1)
    table[ord("\u3000")] = ord(" ")
    for start in (0, ord("！") - ord("!")):
        table[start + ord("A") : start + ord("Z") + 1] = np.arange(ord("a"), ord("z") + 1)
        table[start + ord("0") : start + ord("9") + 1] = ord("0")
    return table
