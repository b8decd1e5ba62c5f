"""Compare the words of a segmenter with gold, and with another segmenter's."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from jprep.corpus.document import WORD
from jprep.corpus.step import Segmenter

_BATCH = 1_000  # sentences that are segmented at a time
_SEPARATOR = "|"


class WordCounts(msgspec.Struct):
    """Counts of words, and where two segmentations differ.

    Attributes:
        sentences: number of sentences.
        right: words of the first side, e.g. of gold.
        found: words of the other side.
        both: words of both, at the same place.
        equal_sentences: sentences with the same words.
        differences: the shortest stretches with the same ends but other words: both sides, with their number.
    """

    sentences: int = 0
    right: int = 0
    found: int = 0
    both: int = 0
    equal_sentences: int = 0
    differences: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)

    @property
    def f1(self) -> float:
        """The F1 of word spans, from 0 to 1."""
        total = self.right + self.found
        return 2 * self.both / total if total else 1.0

    def add(self, right: Sequence[str], found: Sequence[str]) -> None:
        """Count a sentence; the words of both sides join to the same text."""
        spans = set(_spans(right)), set(_spans(found))
        self.sentences += 1
        self.right += len(spans[0])
        self.found += len(spans[1])
        self.both += len(spans[0] & spans[1])
        self.equal_sentences += spans[0] == spans[1]
        self.differences.update(_differences(right, found))


class Comparison(msgspec.Struct):
    """What two segmenters make of sentences whose words are given.

    Attributes:
        first, second: each segmenter against the given words.
        agreement: the first against the second; the words of the second count as right.
    """

    first: WordCounts = msgspec.field(default_factory=WordCounts)
    second: WordCounts = msgspec.field(default_factory=WordCounts)
    agreement: WordCounts = msgspec.field(default_factory=WordCounts)


def compare(gold: Iterable[Sequence[str]], first: Segmenter, second: Segmenter | None = None) -> Comparison:
    """Segment the texts of word-segmented sentences, and count; without a second segmenter, its counts stay 0."""
    counts, sentences = Comparison(), iter(gold)
    while batch := list(itertools.islice(sentences, _BATCH)):
        texts = ["".join(words) for words in batch]
        found = [words.split(WORD) for words in first.segment(texts)]
        _add(counts.first, batch, found)
        if second:
            other = [words.split(WORD) for words in second.segment(texts)]
            _add(counts.second, batch, other)
            _add(counts.agreement, other, found)
    return counts


def _add(counts: WordCounts, right: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> None:
    for pair in zip(right, found, strict=True):
        counts.add(*pair)


def _spans(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    ends = list(itertools.accumulate(map(len, words)))
    return zip([0, *ends[:-1]], ends, strict=True)


def _differences(right: Sequence[str], found: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the shortest stretches between common boundaries in which the words differ."""
    common = set(itertools.accumulate(map(len, right))) & set(itertools.accumulate(map(len, found)))
    for ours, theirs in zip(_stretches(right, common), _stretches(found, common), strict=True):
        if len(ours) > 1 or len(theirs) > 1:
            yield _SEPARATOR.join(ours), _SEPARATOR.join(theirs)


def _stretches(words: Sequence[str], ends: set[int]) -> Iterator[list[str]]:
    """Yield the words up to each of some ends."""
    held, at = list[str](), 0
    for word in words:
        held.append(word)
        at += len(word)
        if at in ends:
            yield held
            held = []
