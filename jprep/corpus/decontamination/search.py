"""Find the items of test sets in documents. `docs/decontamination.md` has the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jprep.corpus.decontamination.edit_distance import within_edits
from jprep.corpus.decontamination.folding import BREAK, SEPARATOR, fold, folded_places
from jprep.corpus.decontamination.item_index import SHORT, ItemIndex, covered
from jprep.corpus.decontamination.ngrams import ANCHOR, Booleans, Integers
from jprep.random.counter_bits import UInt64Array

SHARE = 0.6
"""Share of an item's characters that must be in one document for the item to be found."""
LEAST = 10
"""Characters that an item must have to be looked for."""
BATCH = 1 << 18
"""Characters that are searched at a time. The pieces of longer documents overlap by `_OVERLAP`."""

_LONGEST = 1 << 14  # characters of a part of an item that are compared
_OVERLAP = 1 << 15
_SHIFT = 4  # characters that edits may insert between two n-grams of a part, besides an eighth of its length
_ALIGNED = 128  # characters of a part whose edits are counted; longer parts have n-grams between any few edits
_CANDIDATE = 0.3  # share of a part that n-grams must cover for its edits to be counted
_EDGE = 2 * ANCHOR  # characters at either end of a part that a few edits can hide from its n-grams


class Finding(NamedTuple):
    """An item that is in a document.

    Attributes:
        document: index of the document.
        item: index of the item.
        share: share of the item's compared characters that are in the document.
        spans: where its parts are in the document's text: start and end.
    """

    document: int
    item: int
    share: float
    spans: tuple[tuple[int, int], ...]


class _Piece(NamedTuple):
    """A document or a piece of it: index of the document, its first character, and the characters."""

    document: int
    start: int
    text: str


class _Regions(NamedTuple):
    """Regions of pieces that n-grams of one part cover, sorted by piece and part.

    Attributes:
        pieces: index of the piece.
        parts: index of the part.
        found: characters of the part that are found.
        starts, ends: where the part can be in the piece's folded text.
    """

    pieces: Integers
    parts: Integers
    found: Integers
    starts: Integers
    ends: Integers


class ItemSearch:
    """Looks for the items of test sets in documents.

    Args:
        items: for each item, its parts: the texts that would reveal it.

    Attributes:
        characters: number of characters of each item, without spaces, punctuation and symbols, and without the parts
            that are shorter than an n-gram.
        compared: number of those that are looked for; 0 if the item is too short, or consists of phrases that many
            items have.
    """

    def __init__(self, items: Sequence[Sequence[str]]) -> None:
        parts_of = list[list[int]]()
        self._parts = list[UInt64Array]()
        numbers = dict[bytes, int]()
        for item in items:
            folded = [fold(part.replace(BREAK, " "))[:_LONGEST] for part in item]
            for part in folded:
                if numbers.setdefault(part.tobytes(), len(self._parts)) == len(self._parts):
                    self._parts.append(part)
            parts_of.append(list(dict.fromkeys(numbers[part.tobytes()] for part in folded)))
        self._lengths = np.array([len(part) for part in self._parts], np.int64)
        self._index = ItemIndex([[part] for part in self._parts], ANCHOR)
        self._by_part = _ItemsByPart(parts_of, len(self._parts))
        self.characters = self._by_part.sums(np.where(self._lengths < ANCHOR, 0, self._lengths))
        self.compared = self._by_part.sums(self._index.compared)
        self.compared[self.compared < LEAST] = 0
        is_short = np.array([all(self._lengths[part] < SHORT for part in each) for each in parts_of], np.bool_)
        self._needed = np.where(is_short, 1.0, SHARE) * self.compared

    def find(self, texts: Sequence[str]) -> list[Finding]:
        """Return the items that are in documents, sorted by document and item."""
        best = dict[tuple[int, int], Finding]()
        for pieces in _batches(texts):
            for found in self._search(pieces):
                key = (found.document, found.item)
                known = best.get(key, found)
                spans = tuple(dict.fromkeys(known.spans + found.spans))
                best[key] = found._replace(share=max(known.share, found.share), spans=spans)
        return [best[key] for key in sorted(best)]

    def _search(self, pieces: Sequence[_Piece]) -> Iterator[Finding]:
        """Yield the items that are in one piece each."""
        characters = fold(BREAK.join(piece.text.replace(BREAK, " ") for piece in pieces))
        begins = np.concatenate([[0], np.flatnonzero(characters == SEPARATOR) + 1])
        regions = self._regions(characters, begins)
        if not len(regions.pieces):
            return
        in_text = dict[int, Integers]()
        numbers, items, found = self._by_part.summed(*_best(regions))
        enough = (found >= self._needed[items]) & (self.compared[items] > 0)
        for number, item, count in zip(
            numbers[enough].tolist(), items[enough].tolist(), found[enough].tolist(), strict=True
        ):
            if number not in in_text:
                in_text[number] = folded_places(pieces[number].text.replace(BREAK, " ")) + pieces[number].start
            spans = tuple(_spans_in_text(in_text[number], self._spans(regions, number, item)))
            yield Finding(pieces[number].document, item, count / int(self.compared[item]), spans)

    def _spans(self, regions: _Regions, piece: int, item: int) -> list[tuple[int, int]]:
        """Return where the parts of an item are, as far as `SHARE` of the part are there."""
        first, end = np.searchsorted(regions.pieces, [piece, piece + 1])
        parts = np.array(sorted(self._by_part.parts_of[item]))
        lows, highs = (first + np.searchsorted(regions.parts[first:end], parts, side) for side in ("left", "right"))
        rows = np.concatenate([np.arange(low, high) for low, high in zip(lows, highs, strict=True)])
        rows = rows[regions.found[rows] >= SHARE * self._index.compared[regions.parts[rows]]]
        return list(zip(regions.starts[rows].tolist(), regions.ends[rows].tolist(), strict=True))

    def _regions(self, characters: UInt64Array, begins: Integers) -> _Regions:
        """Return where n-grams of a part have nearly the same distances as in the part."""
        places, hashes = _without_repeats(*self._index.find(characters))
        indexes, parts, in_part, lengths = self._index.occurrences(hashes)
        places = places[indexes]
        pieces = np.searchsorted(begins, places, "right") - 1
        offsets = places - begins[pieces] - in_part
        order = np.lexsort((offsets, parts, pieces))
        pieces, parts, in_part, lengths, offsets = (each[order] for each in (pieces, parts, in_part, lengths, offsets))
        places = offsets + in_part
        if not len(order):
            return _Regions(pieces, parts, lengths, offsets, offsets)
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(pieces) != 0) | (np.diff(parts) != 0)
        new[1:] |= np.diff(offsets) > _SHIFT + self._lengths[parts[1:]] // 8
        first, numbers = np.flatnonzero(new), np.cumsum(new) - 1
        order = np.lexsort((in_part, numbers))
        found = covered(numbers[order], in_part[order], lengths[order])[1]
        pieces, parts = pieces[first], parts[first]
        starts, ends = offsets[first], np.maximum.reduceat(offsets, first) + self._lengths[parts]
        regions = _Regions(pieces, parts, found, np.maximum(0, starts), ends)
        regions, is_whole = self._with_edits(regions, characters, begins)
        return self._trimmed(regions, is_whole, places, in_part, first)

    def _trimmed(
        self, regions: _Regions, is_whole: Booleans, places: Integers, in_part: Integers, first: Integers
    ) -> _Regions:
        """Limit each region to the characters of the part that are there.

        Args:
            regions: to be limited.
            is_whole: whether a region has the whole part, with edits.
            places: of the n-grams in their piece, sorted by region.
            in_part: places of the n-grams in their part.
            first: index of the first n-gram of each region.
        """
        before = np.minimum.reduceat(in_part, first)
        after = self._lengths[regions.parts] - ANCHOR - np.maximum.reduceat(in_part, first)
        starts = np.minimum.reduceat(places, first) - np.where(is_whole | (before <= _EDGE), before, 0)
        ends = np.maximum.reduceat(places, first) + ANCHOR + np.where(is_whole | (after <= _EDGE), after, 0)
        return regions._replace(starts=np.maximum(0, starts), ends=ends)

    def _with_edits(self, regions: _Regions, characters: UInt64Array, begins: Integers) -> tuple[_Regions, Booleans]:
        """Count a part as found in whole where few edits turn the region into it; a short part only there.

        Returns:
            The regions, and for each whether edits were counted and are few.
        """
        compared, lengths = self._index.compared[regions.parts], self._lengths[regions.parts]
        found, is_whole = regions.found.copy(), np.zeros(len(lengths), np.bool_)
        ends = np.append(begins[1:] - 1, len(characters))
        for row in np.flatnonzero((lengths <= _ALIGNED) & (found >= _CANDIDATE * compared)).tolist():
            part, begin = self._parts[regions.parts[row]], int(begins[regions.pieces[row]])
            most = allowed_edits(len(part))
            start, end = begin + int(regions.starts[row]) - most, begin + int(regions.ends[row]) + most
            region = characters[max(begin, start) : min(end, int(ends[regions.pieces[row]]))]
            if within_edits(part.tolist(), region.tolist(), most):
                found[row], is_whole[row] = compared[row], True
            elif len(part) < SHORT:
                found[row] = 0
        return regions._replace(found=np.where((lengths < SHORT) & (found < compared), 0, found)), is_whole


class _ItemsByPart:
    """Which items have which parts.

    Args:
        parts_of: the parts of each item, each once.
        count: number of parts.
    """

    def __init__(self, parts_of: Sequence[Sequence[int]], count: int) -> None:
        self.parts_of = parts_of
        sizes = np.array([len(parts) for parts in parts_of], np.int64)
        parts = np.array([part for each in parts_of for part in each], np.int64)
        order = np.argsort(parts, kind="stable")
        self._items = np.repeat(np.arange(len(parts_of)), sizes)[order]
        self._parts = parts[order]
        self._starts = np.searchsorted(self._parts, np.arange(count + 1))

    def sums(self, values: Integers) -> Integers:
        """Return the sum of the values of each item's parts."""
        return np.bincount(self._items, values[self._parts], minlength=len(self.parts_of)).astype(np.int64)

    def summed(self, pieces: Integers, parts: Integers, values: Integers) -> tuple[Integers, Integers, Integers]:
        """Return the sums of values by piece and item: pieces, items, sums."""
        counts = self._starts[parts + 1] - self._starts[parts]
        rows = np.repeat(self._starts[parts] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        keys = np.repeat(pieces, counts) * len(self.parts_of) + self._items[rows]
        keys, inverse = np.unique(keys, return_inverse=True)
        sums = np.bincount(inverse, np.repeat(values, counts), minlength=len(keys)).astype(np.int64)
        return *np.divmod(keys, len(self.parts_of)), sums


def allowed_edits(length: int) -> int:
    """Return how many edits a part of so many characters may have and count as found."""
    return 0 if length < 12 else length // 8 if length < SHORT else length // 6


def _best(regions: _Regions) -> tuple[Integers, Integers, Integers]:
    """Return for each piece and part the most that a region has of the part."""
    new = (np.diff(regions.pieces) != 0) | (np.diff(regions.parts) != 0)
    first = np.flatnonzero(np.concatenate([[True], new]))
    return regions.pieces[first], regions.parts[first], np.maximum.reduceat(regions.found, first)


def _without_repeats(places: Integers, hashes: UInt64Array) -> tuple[Integers, UInt64Array]:
    """Return n-grams without the inner ones where one overlaps with itself, as in a run of one character.

    A run has each n-gram of it at every place, and each of them is in many places of many items.
    """
    order = np.lexsort((places, hashes))
    places, hashes = places[order], hashes[order]
    overlaps = (np.diff(places) < ANCHOR) & (hashes[1:] == hashes[:-1])
    kept = np.ones(len(places), np.bool_)
    kept[1:-1] = ~(overlaps[:-1] & overlaps[1:])
    return places[kept], hashes[kept]


def _spans_in_text(places: Integers, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places in a document's text of places in a piece's folded text.

    Args:
        places: place in the document's text of each folded character of the piece.
        spans: starts and ends in the folded text.
    """
    for start, end in spans:
        yield int(places[start]), int(places[min(end, len(places)) - 1]) + 1


def _batches(texts: Sequence[str]) -> Iterator[list[_Piece]]:
    """Yield the documents, in pieces if they are long, in batches of bounded size."""
    batch, size = list[_Piece](), 0
    for number, text in enumerate(texts):
        for start in range(0, max(1, len(text) - _OVERLAP), BATCH):
            batch.append(_Piece(number, start, text[start : start + BATCH + _OVERLAP]))
            size += len(batch[-1].text)
            if size >= BATCH:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
