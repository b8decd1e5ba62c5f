"""The n-grams of items, to be found in training texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jprep.corpus.decontamination.ngrams import (
    ANCHOR,
    GRAM,
    HashSet,
    Integers,
    gram_hashes,
    longer_hashes,
    span_hash,
)
from jprep.random.counter_bits import UInt64Array

SHORT = 20
"""A part of fewer characters is one n-gram of its own length."""
MOST_ITEMS = 64
"""An n-gram of more items is a phrase of the task itself, and does not count."""


class ItemIndex:
    """The n-grams of items, each with the items that have it.

    Args:
        items: the folded parts of each item, no two items equal.
        gram: characters of an n-gram, `GRAM` or `ANCHOR`; of `ANCHOR` for parts that are shorter than `SHORT`, too.

    Attributes:
        compared: characters of each item that are in an n-gram, (items).
        is_short: whether all parts of an item are shorter than `SHORT`, (items).
    """

    def __init__(self, items: Sequence[Sequence[UInt64Array]], gram: int = GRAM) -> None:
        self._gram = gram
        self.compared: Integers = np.zeros(len(items), np.int64)
        self.is_short = np.array([max(map(len, parts), default=0) < SHORT for parts in items], np.bool_)
        self._hashes, self._items, self._starts, self._lengths = _grams(items, gram)
        self._drop_common()
        order = np.lexsort((self._starts, self._items))
        numbers, counts = covered(self._items[order], self._starts[order], self._lengths[order])
        self.compared[numbers] = counts
        self._long = HashSet(self._hashes[self._lengths == gram])
        anchors, self._short = _short_parts(items if gram == GRAM else [])
        self._anchors = HashSet(anchors)

    def _drop_common(self) -> None:
        _, inverse, counts = np.unique(self._hashes, return_inverse=True, return_counts=True)
        kept = (counts <= MOST_ITEMS)[inverse]
        for name in ("_hashes", "_items", "_starts", "_lengths"):
            setattr(self, name, getattr(self, name)[kept])

    def find(self, characters: UInt64Array) -> tuple[Integers, UInt64Array]:
        """Return the places of all n-grams of the items in folded text, and their hashes."""
        anchors, grams = gram_hashes(characters)
        grams = grams if self._gram == GRAM else anchors
        places, ranks = self._long.find(grams)
        found = [(places, self._long.sorted[ranks]), *self._find_short(characters, anchors)]
        return np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])

    def _find_short(self, characters: UInt64Array, anchors: UInt64Array) -> Iterator[tuple[Integers, UInt64Array]]:
        places = self._anchors.find(anchors)[0] if self._short else np.empty(0, np.int64)
        for length, known in self._short.items():
            starts = places[places <= len(characters) - length]
            hashes = longer_hashes(characters, anchors, starts, length)
            equal, _ = known.find(hashes)
            yield starts[equal], hashes[equal]

    def counts(self, hashes: UInt64Array) -> Integers:
        """Return in how many places of the items n-grams are."""
        first = np.searchsorted(self._hashes, hashes, "left")
        return np.searchsorted(self._hashes, hashes, "right") - first

    def occurrences(self, hashes: UInt64Array) -> tuple[Integers, Integers, Integers, Integers]:
        """Return where in the items n-grams are: index of the hash, item, first character and length."""
        first = np.searchsorted(self._hashes, hashes, "left")
        count = np.searchsorted(self._hashes, hashes, "right") - first
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        indexes = np.repeat(np.arange(len(hashes)), count)
        return indexes, self._items[rows], self._starts[rows], self._lengths[rows]

    def cover(self, texts: Integers, hashes: UInt64Array) -> tuple[Integers, Integers, Integers]:
        """Return how much of the items n-grams cover, for each text and item with any.

        Args:
            texts: the number of the text of each n-gram.
            hashes: of the n-grams.

        Returns:
            Texts, items, and characters of the item that are covered.
        """
        indexes, items, starts, lengths = self.occurrences(hashes)
        keys = texts[indexes] * len(self.compared) + items
        order = np.lexsort((starts, keys))
        found, characters = covered(keys[order], starts[order], lengths[order])
        return *np.divmod(found, max(1, len(self.compared))), characters


def covered(keys: Integers, starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Return each key once, and the number of characters that its spans cover.

    Args:
        keys: sorted.
        starts: first character of each span, sorted for each key.
        lengths: characters of each span; spans that overlap have equal lengths.
    """
    if not len(keys):
        return keys, keys
    is_new = np.concatenate([[True], keys[1:] != keys[:-1]])
    own = lengths.copy()
    own[:-1] = np.where(is_new[1:], lengths[:-1], np.minimum(lengths[:-1], starts[1:] - starts[:-1]))
    first = np.flatnonzero(is_new)
    return keys[first], np.add.reduceat(own, first)


def _grams(items: Sequence[Sequence[UInt64Array]], gram: int) -> tuple[UInt64Array, Integers, Integers, Integers]:
    """Return the hash, item, first character and length of each n-gram, sorted by hash."""
    found = [part for number, parts in enumerate(items) for part in _item_grams(number, parts, gram)]
    hashes = np.concatenate([np.empty(0, np.uint64), *(each for each, *_ in found)])
    order = np.argsort(hashes, kind="stable")
    sizes = [len(each) for each, *_ in found]
    numbers, lengths = (np.repeat(np.array([each[i] for each in found], np.int64), sizes)[order] for i in (1, 3))
    starts = np.concatenate([np.empty(0, np.int64), *(each[2] + np.arange(len(each[0])) for each in found)])[order]
    return hashes[order], numbers, starts, lengths


def _item_grams(number: int, parts: Sequence[UInt64Array], gram: int) -> Iterator[tuple[UInt64Array, int, int, int]]:
    start, least = 0, SHORT if gram == GRAM else ANCHOR
    for part in parts:
        if len(part) >= least:
            yield gram_hashes(part)[gram == GRAM], number, start, gram
        elif len(part) >= ANCHOR:
            yield np.array([span_hash(part)], np.uint64), number, start, len(part)
        start += len(part)


def _short_parts(items: Sequence[Sequence[UInt64Array]]) -> tuple[list[int], dict[int, HashSet]]:
    """Return the hashes of the beginnings of short parts, and those of the whole parts by length."""
    short = [part for parts in items for part in parts if ANCHOR <= len(part) < SHORT]
    by_length = dict[int, list[int]]()
    for part in short:
        by_length.setdefault(len(part), []).append(span_hash(part))
    return [span_hash(part[:ANCHOR]) for part in short], {size: HashSet(each) for size, each in by_length.items()}
