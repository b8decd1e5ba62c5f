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
from jprep.tokenizer.encoding.integer_numbers import IntegerNumbers, Keys
from jprep.tokenizer.vocabulary import SPACE_PIECE

Codes = npt.NDArray[np.uint32]
Table = npt.NDArray[np.bool_]

_MIN_CHARACTERS = 4_096  # in a call; for less text the library alone is faster
_LONGEST = 10  # characters of a cached segment: longer ones hardly ever occur again
_MAX_PREFIXES = 1_000_000  # in the cache
_MAX_IDS = 4_000_000  # in the cache
_SEGMENTS_AT_ONCE = 1 << 16  # each adds at most 3 prefixes, so that a prefix's number has at most 21 bits
_INDEX_BITS = 21
_FIRST, _SPREAD = np.uint32(0x85EBCA6B), np.uint32(0x9E3779B1)

# A key holds the first 4 characters of a segment, or the number of a prefix (21 bits) and the next 3 characters.
_BITS = 14  # of a character's number in a key
_KNOWN_CHARACTERS = (1 << _BITS) - 1
_CONTINUED = np.uint64(1 << 63)

_COUNT_BITS = 8  # 10 characters are at most 40 bytes, hence 40 ids
_COUNT_MASK = (1 << _COUNT_BITS) - 1


def _key_masks(characters: int) -> Keys:
    """Return the masks that keep the first 0, 1, … characters of a key."""
    bits = _BITS * characters
    return np.array([(1 << bits) - (1 << (bits - _BITS * kept)) for kept in range(characters + 1)], np.uint64)


_MASKS_OF_4, _MASKS_OF_3 = _key_masks(4), _key_masks(3)


class _Cache:
    """The ids of short segments, by the number of each.

    Attributes:
        prefixes: numbers the prefixes of segments, the segments among them.
        places: by number, the start of a segment's ids in `ids` << `_COUNT_BITS` | their count; 0 for prefixes that are
            no cached segment.
        ids: ids of all segments, and unused room after them.
        size: number of ids.
    """

    def __init__(self) -> None:
        self.prefixes = IntegerNumbers()
        self.places: Offsets = np.zeros(1, np.int64)
        self.ids: Ids = np.zeros(0, np.int32)
        self.size = 0
        self._characters, self._known = np.zeros(sys.maxunicode + 1, np.uint64), 0

    @property
    def full(self) -> bool:
        """Whether nothing more is to be added."""
        return len(self.prefixes) > _MAX_PREFIXES or self.size > _MAX_IDS

    def number(self, codes: Codes, starts: Offsets, lengths: Offsets) -> Offsets:
        """Return the number of each segment; -1 for long ones, and for those with a character that has no number."""
        characters = self._number_characters(codes)
        fours = _packed_fours(characters)
        numbers: Offsets = self.prefixes.number(fours.take(starts) & _MASKS_OF_4.take(lengths, mode="clip"))
        left = np.flatnonzero((lengths > 4) & (lengths <= _LONGEST))
        for place in range(4, _LONGEST, 3):
            three = (fours.take(starts[left] + place) >> np.uint64(_BITS)) & _MASKS_OF_3.take(
                lengths[left] - place, mode="clip"
            )
            prefix = numbers[left].astype(np.uint64) << np.uint64(3 * _BITS)
            numbers[left] = self.prefixes.number(_CONTINUED | prefix | three)
            left = left[lengths[left] > place + 3]
        numbers[lengths > _LONGEST] = -1
        if not characters.all():
            unknown = cumulative_offsets(characters == 0)
            numbers[unknown.take(starts + lengths) > unknown.take(starts)] = -1
        self.places = grown(self.places, len(self.prefixes))
        return numbers

    def add(self, numbers: Offsets, encoded: EncodedBatch) -> None:
        """Add the ids of segments with some numbers."""
        size = self.size + len(encoded.ids)
        self.ids = grown(self.ids, size)
        self.ids[self.size : size] = encoded.ids
        self.places[numbers] = (encoded.offsets[:-1] + self.size) << _COUNT_BITS | np.diff(encoded.offsets)
        self.size = size

    def _number_characters(self, codes: Codes) -> Keys:
        """Return the number of each character, from 1 on; 0 for those beyond the first 16,383."""
        numbers: Keys = self._characters.take(codes)
        if not numbers.all():
            new = np.unique(codes[numbers == 0])[: _KNOWN_CHARACTERS - self._known]
            self._characters[new] = np.arange(self._known, self._known + len(new)) + 1
            self._known += len(new)
            numbers = self._characters.take(codes)
        return numbers


def _packed_fours(characters: Keys) -> Keys:
    """Return a word for each place of a text: the numbers of the four characters from there on, 0 after the end."""
    words = characters << np.uint64(3 * _BITS)
    for place in range(1, min(4, len(characters))):
        words[:-place] |= characters[place:] << np.uint64((3 - place) * _BITS)
    return words


class SegmentEncoder:
    """Encode text by BPE or Unigram, faster than the library that knows the model.

    Text is cut between two characters unless they are a piece, or are in a longer piece together with the character
    before or after them. No token reaches across such a place, so the ids of a text are those of its segments. Most
    segments are short and occur again and again.

    Args:
        encoder: encodes texts, in which newlines are tokens of their own.
        pieces: the pieces that the encoder may use, with `SPACE_PIECE` for a space.
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
        text = text.replace(" ", SPACE_PIECE)
        codes = code_points(text)
        begins = cumulative_offsets(np.array([len(each) for each in texts]) + 1)
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
        first, end = (starts[0], starts[-1] + lengths[-1]) if len(starts) else (0, 0)
        numbers = cache.number(codes[first:end], starts - first, lengths)
        places = cache.places.take(numbers)
        missing = np.flatnonzero((places == 0) & (numbers >= 0))
        if len(missing):
            new, firsts = np.unique(numbers[missing], return_index=True)
            cache.add(new, self._encode_segments(text, starts[missing[firsts]], lengths[missing[firsts]]))
            places = cache.places.take(numbers)
        found, sizes, ids = places >> _COUNT_BITS, places & _COUNT_MASK, cache.ids
        others = np.flatnonzero(numbers < 0)
        if len(others):
            encoded = self._encode_segments(text, starts[others], lengths[others])
            ids = np.concatenate([ids[: cache.size], encoded.ids])
            found[others], sizes[others] = encoded.offsets[:-1] + cache.size, np.diff(encoded.offsets)
        return ids.take(indices_of_ranges(found, cumulative_offsets(sizes))), sizes

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
