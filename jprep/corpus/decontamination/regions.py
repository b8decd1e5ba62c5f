"""Find the places of texts that parts of items are in: by n-grams, by counted edits, and as whole sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from jprep.corpus.decontamination.edit_distance import within_edits
from jprep.corpus.decontamination.edited_parts import FREE, LONGEST, SHORTEST, EditedParts
from jprep.corpus.decontamination.folding import SEPARATOR
from jprep.corpus.decontamination.item_index import SHORT, ItemIndex, covered
from jprep.corpus.decontamination.ngrams import ANCHOR, Booleans, Integers, without_repeats
from jprep.corpus.decontamination.whole_sentences import WholeSentences
from jprep.random.counter_bits import UInt64Array

_SHIFT = 4  # characters that edits may insert between two n-grams of a part, besides an eighth of its length
_ALIGNED = 128  # characters of a part whose edits are counted; longer parts have n-grams between any few edits
_CANDIDATE = 0.3  # share of a part that n-grams must cover for its edits to be counted
_EDGE = 2 * ANCHOR  # characters at either end of a part that a few edits can hide from its n-grams
_MATCHES = 8  # n-grams of items that may match for each character of a text; those of a text that repeats match more
_LEAST_MATCHES = 1 << 14


class FoldedTexts:
    """Folded texts that are searched together.

    Args:
        characters: of all texts, with `SEPARATOR` between two.
        marks: before which of them a sentence may begin or end.
    """

    def __init__(self, characters: UInt64Array, marks: Integers) -> None:
        separators = np.flatnonzero(characters == SEPARATOR)
        self.characters = characters
        self.begins: Integers = np.concatenate([[0], separators + 1])
        self.ends: Integers = np.append(separators, len(characters))
        every = np.sort(np.concatenate([marks, self.begins, self.ends]), kind="stable")  # sorted runs: merged
        self.marks: Integers = every[np.append(True, np.diff(every) != 0)]

    def numbers(self, places: Integers) -> Integers:
        """Return the index of the text of each place."""
        return np.searchsorted(self.begins, places, "right") - 1


class Regions(NamedTuple):
    """Regions of texts that have a part of an item, or some of it, sorted by text and part.

    Attributes:
        texts: index of the text.
        parts: index of the part.
        found: characters of the part that are found.
        starts, ends: where the part can be in the folded text.
    """

    texts: Integers
    parts: Integers
    found: Integers
    starts: Integers
    ends: Integers

    def best(self) -> tuple[Integers, Integers, Integers]:
        """Return for each text and part the most that a region has of the part: texts, parts, characters."""
        new = (np.diff(self.texts) != 0) | (np.diff(self.parts) != 0)
        first = np.flatnonzero(np.concatenate([[True], new]))
        return self.texts[first], self.parts[first], np.maximum.reduceat(self.found, first)


class RegionFinder:
    """Finds the regions of parts.

    Args:
        parts: the folded parts.
        whole: numbers of the parts that are found as whole sentences only.

    Attributes:
        compared: characters of each part that are looked for, (parts).
    """

    def __init__(self, parts: Sequence[UInt64Array], whole: Collection[int]) -> None:
        self._parts, empty = parts, np.empty(0, np.uint64)
        self._lengths = np.array([len(part) for part in parts], np.int64)
        self._index = ItemIndex([[empty if number in whole else part] for number, part in enumerate(parts)], ANCHOR)
        self._sentences = WholeSentences({number: parts[number] for number in whole})
        self.compared = self._index.compared.copy()
        short = np.flatnonzero((self.compared > 0) & (self._lengths >= SHORTEST) & (self._lengths <= LONGEST))
        self._edited = EditedParts({number: parts[number] for number in short.tolist()})
        self.compared[list(whole)] = self._lengths[list(whole)]

    def find(self, texts: FoldedTexts) -> tuple[Regions, Booleans]:
        """Return the regions, and in which texts n-grams of items are so many that only the first of each are used."""
        by_ngrams, repeats = self._by_ngrams(texts)
        found = [by_ngrams, self._whole_sentences(texts), self._with_hidden_edit(texts)]
        regions = Regions(*map(np.concatenate, zip(*found, strict=True)))
        order = np.lexsort((regions.parts, regions.texts))
        return Regions(*(each[order] for each in regions)), repeats

    def _whole_sentences(self, texts: FoldedTexts) -> Regions:
        starts, parts = self._sentences.find(texts.characters, texts.marks)
        return self._whole(texts, parts, starts, starts + self._lengths[parts])

    def _with_hidden_edit(self, texts: FoldedTexts) -> Regions:
        places = self._edited.find(texts.characters, texts.marks)
        return self._whole(texts, *places)

    def _whole(self, texts: FoldedTexts, parts: Integers, starts: Integers, ends: Integers) -> Regions:
        numbers = texts.numbers(starts)
        within = ends <= texts.ends[numbers]
        parts, starts, begins = parts[within], starts[within], texts.begins[numbers[within]]
        return Regions(numbers[within], parts, self.compared[parts], starts - begins, ends[within] - begins)

    def _by_ngrams(self, texts: FoldedTexts) -> tuple[Regions, Booleans]:
        """Return where n-grams of a part have nearly the same distances as in the part; and `_rarest`."""
        places, hashes = without_repeats(*self._index.find(texts.characters))
        kept, repeats = self._rarest(texts, places, hashes)
        places, hashes = places[kept], hashes[kept]
        indexes, parts, in_part, lengths = self._index.occurrences(hashes)
        numbers = texts.numbers(places)[indexes]
        offsets = places[indexes] - texts.begins[numbers] - in_part
        order = np.lexsort((offsets, parts, numbers))
        numbers, parts, in_part, lengths, offsets = (
            each[order] for each in (numbers, parts, in_part, lengths, offsets)
        )
        places = offsets + in_part
        if not len(order):
            return Regions(numbers, parts, lengths, offsets, offsets), repeats
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(numbers) != 0) | (np.diff(parts) != 0)
        new[1:] |= np.diff(offsets) > _SHIFT + self._lengths[parts[1:]] // 8
        first, groups = np.flatnonzero(new), np.cumsum(new) - 1
        order = np.lexsort((in_part, groups))
        found = covered(groups[order], in_part[order], lengths[order])[1]
        numbers, parts = numbers[first], parts[first]
        starts, ends = offsets[first], np.maximum.reduceat(offsets, first) + self._lengths[parts]
        regions, is_whole = self._with_edits(Regions(numbers, parts, found, np.maximum(0, starts), ends), texts)
        return self._trimmed(regions, is_whole, places, in_part, first), repeats

    def _rarest(self, texts: FoldedTexts, places: Integers, hashes: UInt64Array) -> tuple[Booleans, Booleans]:
        """Limit the matches of texts that repeat the n-grams of items over and over.

        Args:
            texts: that are searched.
            places: of the n-grams of items, sorted by hash.
            hashes: of the n-grams.

        Returns:
            For each n-gram whether it is used, and for each text whether it is one whose matches were limited.
        """
        numbers, counts = texts.numbers(places), self._index.counts(hashes)
        most = np.maximum(_LEAST_MATCHES, _MATCHES * (texts.ends - texts.begins))
        many = np.bincount(numbers, counts, minlength=len(most)) > most
        kept, repeats = np.ones(len(places), np.bool_), np.zeros(len(most), np.bool_)
        for number in np.flatnonzero(many).tolist():
            own = np.flatnonzero(numbers == number)
            first = np.searchsorted(hashes[own], hashes[own], "left")
            rank, limit = np.arange(len(own)) - first, len(own)
            while limit > 1 and counts[own[rank < limit]].sum() > most[number]:
                limit //= 2
            kept[own] = rank < limit
            repeats[number] = not kept[own].all()
        return kept, repeats

    def _trimmed(
        self, regions: Regions, is_whole: Booleans, places: Integers, in_part: Integers, first: Integers
    ) -> Regions:
        """Limit each region to the characters of the part that are there.

        Args:
            regions: to be limited.
            is_whole: whether a region has the whole part, with edits.
            places: of the n-grams in their text, sorted by region.
            in_part: places of the n-grams in their part.
            first: index of the first n-gram of each region.
        """
        before = np.minimum.reduceat(in_part, first)
        after = self._lengths[regions.parts] - ANCHOR - np.maximum.reduceat(in_part, first)
        starts = np.minimum.reduceat(places, first) - np.where(is_whole | (before <= _EDGE), before, 0)
        ends = np.maximum.reduceat(places, first) + ANCHOR + np.where(is_whole | (after <= _EDGE), after, 0)
        return regions._replace(starts=np.maximum(0, starts), ends=ends)

    def _with_edits(self, regions: Regions, texts: FoldedTexts) -> tuple[Regions, Booleans]:
        """Count a part as found in whole where few edits turn the region into it; a short part only there.

        Returns:
            The regions, and for each whether edits were counted and are few.
        """
        compared, lengths = self.compared[regions.parts], self._lengths[regions.parts]
        found, is_whole, known = regions.found.copy(), np.zeros(len(lengths), np.bool_), dict[tuple[int, bytes], bool]()
        for row in np.flatnonzero((lengths <= _ALIGNED) & (found >= _CANDIDATE * compared)).tolist():
            number, text = int(regions.parts[row]), int(regions.texts[row])
            most, begin, end = allowed_edits(len(self._parts[number])), int(texts.begins[text]), int(texts.ends[text])
            start, stop = begin + int(regions.starts[row]) - most, begin + int(regions.ends[row]) + most
            region = texts.characters[max(begin, start) : min(end, stop)]
            key = number, region.tobytes()
            if key not in known:  # a text that repeats itself has the same region many times
                known[key] = within_edits(self._parts[number].tolist(), region.tolist(), most)
            is_whole[row] = known[key]
        found[is_whole] = compared[is_whole]
        return regions._replace(found=np.where((lengths < SHORT) & (found < compared), 0, found)), is_whole


def allowed_edits(length: int) -> int:
    """Return how many edits of a part of so many characters are counted around its n-grams."""
    return 0 if length < FREE else length // 8 if length < SHORT else length // 6
