"""Sums of a linear model's weights over the character n-grams of many texts.

An n-gram of each order from 1 to 3 begins at each character of a text. The line feed after the text belongs to its
n-grams, so the last character begins no trigram. The weights of all classes of an n-gram are packed into one integer:
one look-up and one addition do for all. Sums of integers are the same on every machine and for every cut into chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS = 3
UNIGRAMS = 1 << 16
"""Size of the table of characters. Those outside the first plane share its last place."""

HASH_BITS = 15
LEVELS = 64
ZERO = LEVELS // 2
"""Weights are integers from 0 to LEVELS - 1; ZERO stands for no weight."""

CLASSES = 5
_FIELD_BITS = 12
_RUN = ((1 << _FIELD_BITS) - 1) // (ORDERS * (LEVELS - 1))  # characters whose packed weights add up without overflow
_CHUNK = 1 << 15  # characters; what is computed for them stays in a processor's second cache
_WIDE_BITS = 2 * _FIELD_BITS  # enough for a sum over a chunk
_LOW = (1 << _WIDE_BITS) - 1
_WIDE = ((1 << _FIELD_BITS) - 1) * ((1 << _WIDE_BITS) + 1)
_FIELD_PAIRS = ((0, 2), (1, 3), (4, CLASSES))
"""Classes whose sums fit into one integer: every second one. The last is alone; what is beside it is 0."""

_SHIFT = np.uint32(32 - HASH_BITS)
_FIRST, _SECOND, _THIRD = (np.uint32(odd) for odd in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D))


def hashed_places(codes: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the places of the bigrams and the trigrams that begin at each character but the last two.

    All bigrams of one character twice share a place: repetition looks the same in every script.
    """
    second = codes * _SECOND
    pairs = codes[:-1] * _FIRST
    pairs += second[1:]
    pairs *= codes[:-1] != codes[1:]
    triples = pairs[:-1] * _THIRD
    triples += second[2:]
    return pairs[:-1] >> _SHIFT, triples >> _SHIFT


def pack(weights: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return a table with the weights of all classes in one integer each.

    Args:
        weights: integers below LEVELS, shape [places, CLASSES].
    """
    shifts = np.arange(CLASSES) * _FIELD_BITS
    packed: NDArray[np.int64] = (weights.astype(np.int64) << shifts).sum(axis=1)
    return packed


def sum_weights(
    codes: NDArray[np.uint32], starts: NDArray[np.int64], tables: tuple[NDArray[np.int64], ...]
) -> NDArray[np.int64]:
    """Return the sum of the weights over the n-grams of each text, without the ZERO of each, shape [texts, CLASSES].

    Args:
        codes: code points of the texts, each text followed by a line feed.
        starts: where each text begins in `codes`, shape [texts + 1].
        tables: packed weights of unigrams, bigrams and trigrams.
    """
    sums = np.zeros((len(starts) - 1, CLASSES + 1), np.int64)
    padded = np.concatenate([codes, np.zeros(2, codes.dtype)])
    for begin in range(0, len(codes), _CHUNK):
        end = min(begin + _CHUNK, len(codes))
        _add_chunk(sums, padded[begin : end + 2], begin, starts, tables)
    lengths = np.diff(starts) - 1
    return sums[:, :CLASSES] - (ZERO * _ngrams(lengths))[:, None]


def _add_chunk(
    sums: NDArray[np.int64],
    codes: NDArray[np.uint32],
    begin: int,
    starts: NDArray[np.int64],
    tables: tuple[NDArray[np.int64], ...],
) -> None:
    """Add the weights of the characters of a chunk; `codes` has two more, which end its last n-grams."""
    size = len(codes) - 2
    pairs, triples = hashed_places(codes)
    values = tables[1].take(pairs)
    longest = tables[2].take(triples)
    values += tables[0].take(codes[:-2], mode="clip")
    doc = int(np.searchsorted(starts, begin, side="right")) - 1
    ends = starts[doc + 1 : int(np.searchsorted(starts, begin + size, side="right")) + 1] - begin
    longest[_inside(ends - 2, size)] = 0
    values += longest
    values[_inside(ends - 1, size)] = 0
    inner = ends[ends < size]
    edges = np.sort(np.concatenate([np.arange(0, size, _RUN), inner]))
    edges = edges[np.append(True, edges[1:] != edges[:-1])]
    runs = np.add.reduceat(values, edges)
    docs = np.searchsorted(edges, np.append(0, inner))
    of_docs = sums[doc : doc + len(docs)]
    for field, other in _FIELD_PAIRS:
        wide = np.add.reduceat((runs >> (field * _FIELD_BITS)) & _WIDE, docs)
        of_docs[:, field] += wide & _LOW
        of_docs[:, other] += wide >> _WIDE_BITS


def _inside(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return places[(places >= 0) & (places < size)]


def _ngrams(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many n-grams of all orders texts of these lengths have."""
    return 2 * lengths + np.maximum(lengths - 1, 0)
