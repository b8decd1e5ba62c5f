"""The tables of a model in the form that the compiled kernel reads.

The row of an n-gram holds its lanes, a byte each, and above them the part of the dictionary that the same hash leads
to: one look-up serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jprep.corpus.segmenters.pointwise.characters import fold_codes, symbols_of
from jprep.corpus.segmenters.pointwise.features import LANES, LONGEST, PREFIX, word_bit
from jprep.corpus.segmenters.pointwise.hashing import WORD_BITS
from jprep.corpus.segmenters.pointwise.weights import MAX_LANE, OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.weights import Weights

DICTIONARY_AT = 40
"""Bit of a row of two or three characters where its part of the dictionary begins: one bit for each hash."""

QUADRUPLE_DICTIONARY_AT = 24
"""The same for four characters: two bits for each hash, the second for `PREFIX`."""

_MAX_LONGEST = 7
_HELD = (0, 4, 4, 2)  # binary logarithms of the hashes of the dictionary in one row, at most
_BYTE = 8


class PackedTables(NamedTuple):
    """Tables of a model.

    Attributes:
        symbols: symbol of each code point of 16 bits, uint32, see `symbols_of`.
        singles, pairs, triples, quadruples: rows of n-grams; uint64, the last uint32. Lane k is byte k.
        shifts: by how much a hash is shifted to get the index of its row, by length, uint64, shape [4].
        parts: mask of the bits of an index in the dictionary that choose a bit within the row, by length, uint64,
            shape [4].
        kinds, lengths, over, coarse, neighbours: weights of direct features, int16.
        neighbours_shift, words_shift, second_shift: by how much hashes are shifted, uint64.
        words: the dictionary, uint8.
        second: weights of the second look, int8, shape [FEATURES, 2 ** config.second].
        longest: number of bits of each byte, at most 7, uint8, shape [256].
        bias: what is added to a sum of lanes, which were made positive.
    """

    symbols: NDArray[np.uint32]
    singles: NDArray[np.uint64]
    pairs: NDArray[np.uint64]
    triples: NDArray[np.uint64]
    quadruples: NDArray[np.uint32]
    shifts: NDArray[np.uint64]
    parts: NDArray[np.uint64]
    kinds: NDArray[np.int16]
    lengths: NDArray[np.int16]
    over: NDArray[np.int16]
    coarse: NDArray[np.int16]
    neighbours: NDArray[np.int16]
    neighbours_shift: np.uint64
    words_shift: np.uint64
    second_shift: np.uint64
    words: NDArray[np.uint8]
    second: NDArray[np.int8]
    longest: NDArray[np.uint8]
    bias: int


def pack_tables(weights: Weights) -> PackedTables:
    """Return the tables of a model."""
    config = weights.config
    row_bits = [max(bits, config.words - held) for bits, held in zip(config.row_bits, _HELD, strict=True)]
    row_bits[0] = config.characters  # the dictionary has no single characters
    parts = [max(config.words - bits, 0) for bits in row_bits]
    singles, pairs, triples, quadruples = (
        _pack_rows(weights, n, row_bits[n - 1], parts[n - 1]) for n in range(1, len(LANES) + 1)
    )
    kinds, lengths, over, coarse, neighbours = weights.direct
    return PackedTables(
        symbols=symbols_of(fold_codes(np.arange(1 << 16, dtype=np.uint32))),
        singles=singles,
        pairs=pairs,
        triples=triples,
        quadruples=quadruples,
        shifts=np.array([WORD_BITS - bits for bits in row_bits], np.uint64),
        parts=np.array([(1 << bits) - 1 for bits in parts], np.uint64),
        kinds=kinds,
        lengths=lengths,
        over=over,
        coarse=coarse,
        neighbours=neighbours,
        neighbours_shift=np.uint64(WORD_BITS - config.neighbours),
        words_shift=np.uint64(WORD_BITS - config.words),
        second_shift=np.uint64(WORD_BITS - config.second),
        words=weights.words,
        second=weights.second,
        longest=np.array([min(value.bit_length(), _MAX_LONGEST) for value in range(1 << LONGEST)], np.uint8),
        bias=weights.bias - OFFSET,
    )


def _pack_rows(weights: Weights, length: int, bits: int, part: int) -> Any:
    """Return the rows of n-grams of some length.

    Args:
        weights: the model.
        length: their length.
        bits: there are 2 ** bits rows: more than in the model if a row could not hold its part of the dictionary.
        part: that part is 2 ** part hashes.
    """
    dtype: Any = np.uint32 if length == len(LANES) else np.uint64
    lanes = weights.rows[length - 1]
    packed: Any = np.zeros(len(lanes), dtype)
    for lane in range(lanes.shape[1]):
        packed |= (lanes[:, lane].astype(np.int16) + MAX_LANE).astype(dtype) << dtype(_BYTE * lane)
    packed = np.repeat(packed, (1 << bits) // len(packed))
    if length > 1:
        _add_dictionary(packed, weights.words, length, part)
    return packed


def _add_dictionary(packed: Any, words: NDArray[np.uint8], length: int, part: int) -> None:
    """Add the dictionary to rows: hash h is in row h >> part, or in several rows if it has fewer hashes than rows."""
    dtype: Any = packed.dtype.type
    for n in range(1 << part):
        held = np.repeat(words[n :: 1 << part], max(len(packed) // len(words), 1))
        word = ((held & word_bit(length)) != 0).astype(dtype)
        if length < len(LANES):
            packed |= word << dtype(DICTIONARY_AT + n)
        else:
            prefix = ((held & PREFIX) != 0).astype(dtype)
            packed |= (word | (prefix << dtype(1))) << dtype(QUADRUPLE_DICTIONARY_AT + 2 * n)
