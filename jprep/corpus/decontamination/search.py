"""Find the items of test sets in documents. `docs/decontamination.md` has the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jprep.batching import batches_of
from jprep.corpus.decontamination.cutting import merged_spans
from jprep.corpus.decontamination.folding import BREAK, fold, fold_with_marks, folded_places
from jprep.corpus.decontamination.item_index import MOST_ITEMS, SHORT
from jprep.corpus.decontamination.items_by_part import ItemsByPart
from jprep.corpus.decontamination.ngrams import ANCHOR, Integers
from jprep.corpus.decontamination.regions import FoldedTexts, RegionFinder, Regions
from jprep.random.counter_bits import UInt64Array

SHARE = 0.6
"""Share of an item's characters that must be in one document for the item to be found."""
LEAST = 10
"""Characters that an item must have to be looked for within sentences."""
LEAST_WHOLE = 6
"""Characters that a shorter item must have to be looked for as a whole sentence."""
BATCH = 1 << 18
"""Characters that are searched at a time. The pieces of longer documents overlap by `_OVERLAP`."""

_LONGEST = 1 << 14  # characters of a part of an item that are compared
_OVERLAP = 1 << 15


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


class ItemSearch:
    """Looks for the items of test sets in documents.

    Args:
        items: for each item, its parts: the texts that would reveal it.

    Attributes:
        characters: number of characters of each item, without spaces, punctuation and symbols, and without the parts
            that are not compared since they are too short.
        compared: number of those that are looked for; 0 if the item is too short, or consists of phrases that many
            items have.
        whole: whether the item is so short that it is found as a whole sentence only.
    """

    def __init__(self, items: Sequence[Sequence[str]]) -> None:
        numbers, parts_of, whole = _Numbers(), list[list[int]](), list[bool]()
        for item in items:
            folded = [fold(part.replace(BREAK, " "))[:_LONGEST] for part in item]
            whole.append(sum(len(part) for part in folded if len(part) >= ANCHOR) < LEAST)
            parts_of.append(list(dict.fromkeys(numbers.of(part, whole[-1]) for part in folded)))
        self.whole = np.array(whole, np.bool_)
        self._lengths = np.array([len(part) for part in numbers.parts], np.int64)
        least = np.full(len(self._lengths), ANCHOR)
        least[numbers.whole] = LEAST_WHOLE
        self._regions = RegionFinder(
            numbers.parts, {each for each in numbers.whole if self._lengths[each] >= LEAST_WHOLE}
        )
        self.characters = ItemsByPart(parts_of, len(least)).sums(np.where(self._lengths < least, 0, self._lengths))
        self._by_part = ItemsByPart(_without_common(parts_of, len(least)), len(least))
        self.compared = self._by_part.sums(self._regions.compared)
        self.compared[~self.whole & (self.compared < LEAST)] = 0
        is_short = np.array([all(self._lengths[part] < SHORT for part in each) for each in parts_of], np.bool_)
        self._needed = np.where(is_short, 1.0, SHARE) * self.compared

    def find(self, texts: Sequence[str]) -> list[Finding]:
        """Return the items that are in documents, sorted by document and item."""
        found = dict[tuple[int, int], list[Finding]]()
        for pieces in batches_of(_pieces(texts), BATCH, lambda piece: len(piece.text)):
            for each in self._search(pieces):
                found.setdefault((each.document, each.item), []).append(each)
        return [_joined(found[key]) for key in sorted(found)]

    def _search(self, pieces: Sequence[_Piece]) -> Iterator[Finding]:
        """Yield the items that are in one piece each."""
        texts = FoldedTexts(*fold_with_marks(BREAK.join(piece.text.replace(BREAK, " ") for piece in pieces)))
        regions, repeats = self._regions.find(texts)
        if not len(regions.texts):
            return
        in_text = dict[int, Integers]()
        numbers, items, found = self._by_part.summed(*regions.best())
        enough = (found >= self._needed[items]) & (self.compared[items] > 0)
        for number, item, count in zip(
            numbers[enough].tolist(), items[enough].tolist(), found[enough].tolist(), strict=True
        ):
            if number not in in_text:
                in_text[number] = folded_places(pieces[number].text.replace(BREAK, " ")) + pieces[number].start
            own = [(0, len(in_text[number]))] if repeats[number] else self._spans(regions, number, item)
            spans = tuple(_spans_in_text(in_text[number], merged_spans(own)))
            yield Finding(pieces[number].document, item, count / int(self.compared[item]), spans)

    def _spans(self, regions: Regions, text: int, item: int) -> list[tuple[int, int]]:
        """Return where the parts of an item are, as far as `SHARE` of the part are there."""
        first, end = np.searchsorted(regions.texts, [text, text + 1])
        parts = np.array(sorted(self._by_part.parts_of[item]))
        lows, highs = (first + np.searchsorted(regions.parts[first:end], parts, side) for side in ("left", "right"))
        rows = np.concatenate([np.arange(low, high) for low, high in zip(lows, highs, strict=True)])
        rows = rows[regions.found[rows] >= SHARE * self._regions.compared[regions.parts[rows]]]
        return list(zip(regions.starts[rows].tolist(), regions.ends[rows].tolist(), strict=True))


class _Numbers:
    """Numbers the different parts of items; those that are found as whole sentences only have numbers of their own."""

    def __init__(self) -> None:
        self.parts = list[UInt64Array]()
        self.whole = list[int]()
        self._known = dict[tuple[bytes, bool], int]()

    def of(self, part: UInt64Array, whole: bool) -> int:
        """Return the number of a part."""
        number = self._known.setdefault((part.tobytes(), whole), len(self.parts))
        if number == len(self.parts):
            self.parts.append(part)
            if whole:
                self.whole.append(number)
        return number


def _without_common(parts_of: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Return the parts of items without those of more than `MOST_ITEMS` different items, such as instructions."""
    different = dict.fromkeys(map(tuple, parts_of))
    used = np.bincount([part for each in different for part in each], minlength=count)
    return [[part for part in each if used[part] <= MOST_ITEMS] for each in parts_of]


def _joined(findings: Sequence[Finding]) -> Finding:
    """Return what was found of an item in the pieces of one document as one."""
    spans = merged_spans(span for each in findings for span in each.spans)
    return findings[0]._replace(share=max(each.share for each in findings), spans=tuple(spans))


def _spans_in_text(places: Integers, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places in a document's text of places in a piece's folded text.

    Args:
        places: place in the document's text of each folded character of the piece.
        spans: starts and ends in the folded text.
    """
    for start, end in spans:
        yield int(places[start]), int(places[min(end, len(places)) - 1]) + 1


def _pieces(texts: Sequence[str]) -> Iterator[_Piece]:
    """Yield the documents, in overlapping pieces if they are long."""
    for number, text in enumerate(texts):
        for start in range(0, max(1, len(text) - _OVERLAP), BATCH):
            yield _Piece(number, start, text[start : start + BATCH + _OVERLAP])
