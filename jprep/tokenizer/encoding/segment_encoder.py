"""Split text where no piece can span the cut; encode each distinct segment once, and cache its ids."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jprep.corpus.code_points import code_points
from jprep.tokenizer.encoding.batch import (
    BatchEncoder,
    EncodedBatch,
    Ids,
    Offsets,
    cumulative_offsets,
    grown,
    indices_of_ranges,
)
from jprep.tokenizer.encoding.integer_numbers import IntegerNumbers
from jprep.tokenizer.vocabulary import SPACE

Codes = npt.NDArray[np.uint32]
Table = npt.NDArray[np.bool_]

_MIN_CHARACTERS = 4_096  # in a call; for less text the library alone is faster
_LONGEST = 9  # characters of a cached segment: longer ones hardly ever occur again
_MAX_PREFIXES = 1_000_000  # in the cache
_MAX_IDS = 4_000_000  # in the cache
_SEGMENTS_AT_ONCE = 1 << 16  # each adds at most 5 prefixes, so that a prefix's number has at most 21 bits
_CODE_BITS = np.uint64(21)
_SINGLE = np.uint64(1 << 63)
_NO_CHARACTER = np.uint32((1 << 21) - 1)
_INDEX_BITS = 21
_FIRST, _SPREAD = np.uint32(0x85EBCA6B), np.uint32(0x9E3779B1)


class _Cache:
    """The ids of short segments, by the number of each.

    Attributes:
        prefixes: numbers the prefixes of segments, the segments among them.
        characters: number of each single character, or -1.
        starts, stops: where the ids of the segment with a number begin and end in `ids`; both 0 for other prefixes.
        ids: ids of all segments, and unused room behind them.
        size: number of ids.
    """

    def __init__(self) -> None:
        self.prefixes = IntegerNumbers()
        self.characters = np.full(sys.maxunicode + 1, -1, np.int32)
        self.starts: Offsets = np.zeros(1, np.int64)
        self.stops: Offsets = np.zeros(1, np.int64)
        self.ids: Ids = np.zeros(0, np.int32)
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether nothing more is to be added."""
        return len(self.prefixes) > _MAX_PREFIXES or self.size > _MAX_IDS

    def number(self, codes: Codes, starts: Offsets, lengths: Offsets) -> Offsets:
        """Return the number of each segment, found by its first character and then two at a time; -1 for long ones."""
        numbers = self._number_characters(codes.take(starts))
        numbers[lengths > _LONGEST] = -1
        left = np.flatnonzero((lengths > 1) & (lengths <= _LONGEST))
        for place in range(1, _LONGEST, 2):
            at, more = starts[left] + place, lengths[left] > place + 1
            second = np.where(more, codes.take(at + 1, mode="clip"), _NO_CHARACTER)
            keys = numbers[left].astype(np.uint64) << _CODE_BITS | codes.take(at)
            numbers[left] = self.prefixes.number(keys << _CODE_BITS | second)
            left = left[lengths[left] > place + 2]
        self.starts, self.stops = (grown(each, len(self.prefixes)) for each in (self.starts, self.stops))
        return numbers

    def add(self, numbers: Offsets, encoded: EncodedBatch) -> None:
        """Add the ids of segments with some numbers."""
        size = self.size + len(encoded.ids)
        self.ids = grown(self.ids, size)
        self.ids[self.size : size] = encoded.ids
        self.starts[numbers] = encoded.offsets[:-1] + self.size
        self.stops[numbers] = encoded.offsets[1:] + self.size
        self.size = size

    def _number_characters(self, codes: Codes) -> Offsets:
        numbers: Offsets = self.characters.take(codes).astype(np.int64)
        new = np.flatnonzero(numbers < 0)
        numbers[new] = self.characters[codes[new]] = self.prefixes.number(codes[new] | _SINGLE)
        return numbers


class SegmentEncoder:
    """Encode text by BPE or Unigram, faster than the library that knows the model.

    Text is cut between two characters unless they are a piece, or are in a longer piece together with the character
    before or after them. No token reaches across such a place, so the ids of a text are those of its segments. Most
    segments are short and occur again and again.

    Args:
        encoder: encodes texts, in which newlines are tokens of their own.
        pieces: the pieces that the encoder may use, with `SPACE` for a space.
        exact_characters: maximum characters of a line that the encoder encodes exactly: Unigram's scores are summed in
            32 bits. Longer lines are cut in any call, so that the ids of a text do not depend on the texts around it.
    """

    def __init__(self, encoder: BatchEncoder, pieces: Sequence[str], exact_characters: int = sys.maxsize) -> None:
        self._encoder, self._pieces, self._exact_characters = encoder, pieces, exact_characters
        self._lock = threading.Lock()
        self._cache: _Cache | None = None

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts, which may contain newlines."""
        text = "\n".join(texts)
        if len(text) < _MIN_CHARACTERS and self._is_exact(text):
            return self._encoder(texts)
        text = text.replace(" ", SPACE)
        codes = code_points(text)
        begins = cumulative_offsets(len(each) + 1 for each in texts)
        starts, lengths = self._cut(codes, begins[1:-1] - 1)
        with self._lock:
            # A call that is interrupted leaves no cache behind, rather than one that may be half changed.
            cache, self._cache = self._cache or _Cache(), None
            parts = list[tuple[Ids, Offsets]]()
            for first in range(0, max(1, len(starts)), _SEGMENTS_AT_ONCE):
                chosen = slice(first, first + _SEGMENTS_AT_ONCE)
                cache = _Cache() if cache.full else cache
                parts.append(self._encode(cache, text, codes, starts[chosen], lengths[chosen]))
            self._cache = cache
        ends = cumulative_offsets(np.concatenate([sizes for _, sizes in parts]))
        return EncodedBatch(np.concatenate([ids for ids, _ in parts]), ends[np.searchsorted(starts, begins)])

    def _is_exact(self, text: str) -> bool:
        limit = self._exact_characters
        return len(text) <= limit or max(map(len, text.split("\n"))) <= limit

    @cached_property
    def _neighbours(self) -> tuple[Table, Table]:
        return _neighbours(self._pieces)

    def _cut(self, codes: Codes, separators: Offsets) -> tuple[Offsets, Offsets]:
        """Return where segments begin and how long they are, without the separators."""
        cuts = np.ones(len(codes) + 1, np.bool_)
        pieces_of_two, in_pieces = self._neighbours
        pairs = _pair_hashes(codes)
        triples = in_pieces.take(_indices(_triple_hashes(pairs, codes)))
        joined = pieces_of_two.take(_indices(pairs))
        joined[1:] |= triples
        joined[:-1] |= triples
        np.logical_not(joined, out=cuts[1:-1])
        cuts[separators] = cuts[separators + 1] = True
        places = np.flatnonzero(cuts)
        starts, lengths = places[:-1], np.diff(places)
        of_texts = np.ones(len(starts), np.bool_)
        of_texts[np.searchsorted(starts, separators)] = False
        return starts[of_texts], lengths[of_texts]

    def _encode(self, cache: _Cache, text: str, codes: Codes, starts: Offsets, lengths: Offsets) -> tuple[Ids, Offsets]:
        """Return the ids of segments, and how many each has."""
        numbers = cache.number(codes, starts, lengths)
        missing = np.flatnonzero((numbers >= 0) & (cache.stops.take(numbers) == 0))
        new, firsts = np.unique(numbers[missing], return_index=True)
        cache.add(new, self._encode_segments(text, starts[missing[firsts]], lengths[missing[firsts]]))
        found, stops, ids = cache.starts.take(numbers), cache.stops.take(numbers), cache.ids
        long = np.flatnonzero(numbers < 0)
        if len(long):
            others = self._encode_segments(text, starts[long], lengths[long])
            ids = np.concatenate([ids[: cache.size], others.ids])
            found[long], stops[long] = others.offsets[:-1] + cache.size, others.offsets[1:] + cache.size
        sizes = stops - found
        return ids[indices_of_ranges(found, cumulative_offsets(sizes))], sizes

    def _encode_segments(self, text: str, starts: Offsets, lengths: Offsets) -> EncodedBatch:
        ranges = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        return self._encoder([text[start:end] for start, end in ranges])


def _neighbours(pieces: Sequence[str]) -> tuple[Table, Table]:
    """Return which two characters are a piece, and which three are in one, by the indices of their hashes.

    Some share an index. Text is then not cut at a place where it could be, which does no harm.
    """
    codes = code_points("\n".join(["", *pieces, ""]))  # no piece has a newline
    inside = codes != ord("\n")
    hashes = _pair_hashes(codes)
    two = inside[1:-2] & inside[2:-1] & ~(inside[:-3] | inside[3:])
    three = inside[:-2] & inside[1:-1] & inside[2:]
    pairs, triples = np.zeros(1 << _INDEX_BITS, np.bool_), np.zeros(1 << _INDEX_BITS, np.bool_)
    pairs[_indices(hashes[1:-1][two])] = True
    triples[_indices(_triple_hashes(hashes, codes)[three])] = True
    return pairs, triples


def _pair_hashes(codes: Codes) -> Codes:
    return codes[:-1] * _FIRST + codes[1:]


def _triple_hashes(pairs: Codes, codes: Codes) -> Codes:
    return pairs[:-1] * _FIRST + codes[2:]


def _indices(hashes: Codes) -> Codes:
    return (hashes * _SPREAD) >> np.uint32(32 - _INDEX_BITS)
