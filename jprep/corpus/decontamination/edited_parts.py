"""Find short parts of items with one edit, by the characters at both of their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from jprep.corpus.decontamination.edit_distance import edits_within
from jprep.corpus.decontamination.item_index import MOST_ITEMS
from jprep.corpus.decontamination.ngrams import ANCHOR, HashSet, Integers, short_hashes, span_hash, without_repeats
from jprep.random.counter_bits import GOLDEN, UInt64Array

SHORTEST, LONGEST = 11, 15
"""Characters of a part that may have no n-gram of `ANCHOR` characters left after one edit."""
FREE = 12
"""Characters from which the edit may be at an end: 「梨がたくさんあります」 is not a test item with another fruit."""

_END = 5  # characters of an end that the edit did not reach: of the halves of a part, it is in one
_FACTOR = GOLDEN | 1


class EditedPlaces(NamedTuple):
    """Where parts are: the part, its first character, and the end."""

    parts: Integers
    starts: Integers
    ends: Integers

    def unique(self) -> EditedPlaces:
        """Return each place once, sorted by part."""
        order = np.lexsort((self.ends, self.starts, self.parts))
        columns = [column[order] for column in self]
        new = np.ones(len(order), np.bool_)
        new[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
        return EditedPlaces(*(column[new] for column in columns))


class EditedParts:
    """Parts that one edit may leave without an n-gram of `ANCHOR` characters.

    Such an edit is not near to an end. So one end has at least `_END` characters of the part, and the other one as
    many as the length exceeds `ANCHOR`, up to `_END`. Of parts of fewer than `FREE` characters, all edits but those of
    the first and the last character are found here, where a mark is at one end of the part.

    Args:
        parts: the folded parts by their number, of `SHORTEST` to `LONGEST` characters, no two equal.
    """

    def __init__(self, parts: Mapping[int, UInt64Array]) -> None:
        self._parts = parts
        self._marked = [number for number, part in parts.items() if len(part) < FREE]
        self._known = dict[tuple[int, int, int], tuple[HashSet, UInt64Array, Integers]]()
        self._heads = HashSet([span_hash(part[:_END]) for part in parts.values()])
        self._tails = HashSet([span_hash(part[-_END:]) for part in parts.values()])
        for length in sorted(set(map(len, parts.values()))):
            numbers = np.array([number for number, part in parts.items() if len(part) == length], np.int64)
            for head, tail in _ends(length):
                keys = np.array([_key(parts[number], head, tail) for number in numbers.tolist()], np.uint64)
                _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
                order = np.argsort(keys, kind="stable")
                order = order[counts[inverse][order] <= MOST_ITEMS]
                self._known[length, head, tail] = HashSet(keys[order]), keys[order], numbers[order]

    def find(self, characters: UInt64Array, marks: Integers) -> EditedPlaces:
        """Return where folded text has a part with at most one edit.

        Args:
            characters: the folded text.
            marks: sorted places where a sentence may begin or end.
        """
        found = list(self._candidates(characters)) if self._known and len(characters) >= ANCHOR else []
        empty = np.empty(0, np.int64)
        columns = zip((empty, empty, empty), *found, strict=True)
        places = EditedPlaces(*(np.concatenate(column) for column in columns)).unique()
        at_mark = np.isin(places.starts, marks) | np.isin(places.ends, marks)
        possible = at_mark | ~np.isin(places.parts, self._marked)
        places = EditedPlaces(*(column[possible] for column in places))
        is_part, known = np.zeros(len(places.parts), np.bool_), dict[tuple[int, bytes], bool]()
        for row, (number, start, end) in enumerate(zip(*(column.tolist() for column in places), strict=True)):
            key = number, characters[start:end].tobytes()
            if key not in known:
                known[key] = edits_within(self._parts[number].tolist(), characters[start:end].tolist()) <= 1
            is_part[row] = known[key]
        return EditedPlaces(*(column[is_part] for column in places))

    def _candidates(self, characters: UInt64Array) -> Iterator[EditedPlaces]:
        """Yield where both ends of a part are at nearly their distance."""
        hashes = {length: short_hashes(characters, length) for _, *ends in self._known for length in ends}
        heads, tails = (self._places(known, hashes[_END]) for known in (self._heads, self._tails))
        for (length, head, tail), (known, keys, numbers) in self._known.items():
            for width in (length - 1, length, length + 1):
                starts = heads if head == _END else tails + _END - width
                starts = starts[(starts >= 0) & (starts + width <= len(characters))]
                own = hashes[head][starts] * np.uint64(_FACTOR) + hashes[tail][starts + width - tail]
                equal, _ = known.find(own)
                first, end = (np.searchsorted(keys, own[equal], side) for side in ("left", "right"))
                counts = end - first
                rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
                begins = np.repeat(starts[equal], counts)
                yield EditedPlaces(numbers[rows], begins, begins + width)

    @staticmethod
    def _places(known: HashSet, hashes: UInt64Array) -> Integers:
        places = known.find(hashes)[0]
        return np.sort(without_repeats(places, hashes[places])[0])


def _ends(length: int) -> list[tuple[int, int]]:
    """Return how many characters of the beginning and of the end of a part are compared, each way."""
    other = 1 if length < FREE else min(_END, length - ANCHOR)
    return list(dict.fromkeys([(_END, other), (other, _END)]))


def _key(part: UInt64Array, head: int, tail: int) -> int:
    return (span_hash(part[:head]) * _FACTOR + span_hash(part[-tail:])) % (1 << 64)
