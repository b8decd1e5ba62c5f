"""Parts of a document that fit on a page, and their paragraphs, sentences and words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from jprep.corpus.document import SENTENCE, WORD

PASSAGE = 4000
"""Characters of a document that one page shows."""


class Passage(NamedTuple):
    """A part of a document.

    Attributes:
        number: its number, from 0.
        total: number of passages of the document.
        start: its first character.
        end: the character after its last.
    """

    number: int
    total: int
    start: int
    end: int


class Piece(NamedTuple):
    """A piece of text, and whether it is highlighted."""

    text: str
    hit: bool


def choose_passage(text: str, number: int | None, terms: list[str]) -> Passage:
    """Return a passage of a text.

    Args:
        text: the whole text.
        number: number of the passage; None chooses the first that has one of the terms, or the first.
        terms: strings that were searched for.
    """
    starts = passage_starts(text)
    if number is None:
        hits = [place for term in terms if (place := text.find(term)) >= 0]
        number = sum(start <= min(hits, default=0) for start in starts) - 1
    number = min(max(number, 0), len(starts) - 1)
    return Passage(number, len(starts), starts[number], [*starts, len(text)][number + 1])


def passage_starts(text: str, size: int = PASSAGE) -> list[int]:
    """Return where the passages of a text begin: after a newline if there is one in the second half of a passage."""
    starts = [0]
    while len(text) - starts[-1] > size:
        whole = text.rfind("\n", starts[-1] + size // 2, starts[-1] + size) + 1
        starts.append(whole or starts[-1] + size)
    return starts


def words_between(words: str, start: int, end: int) -> str:
    """Return the part of a text with separators that belongs to some characters of the text without them.

    Long texts are skipped in blocks, not character by character.

    Args:
        words: the `words` of a document.
        start: the first character in its `text`.
        end: the character after the last.
    """
    return words[_place(words, start) : _place(words, end)].strip(SENTENCE + WORD)


def _place(words: str, position: int) -> int:
    """Return an index in `words` before which there are as many characters that are no separators."""
    at = seen = 0
    size = 1 << 16
    while seen < position and at < len(words):
        block = words[at : at + size]
        more = len(block) - block.count(WORD) - block.count(SENTENCE)
        if seen + more <= position:
            at, seen = at + size, seen + more
        else:
            size = max(size // 16, 1)  # at 1, nothing is too long
    return min(at, len(words))


def paragraphs(words: str) -> list[list[list[str]]]:
    """Return the words of the sentences of the paragraphs of a text with separators."""
    return [
        [sentence.split(WORD) for sentence in paragraph.split(SENTENCE)] for paragraph in words.split("\n") if paragraph
    ]


def highlighted(text: str, terms: list[str]) -> Iterator[Piece]:
    """Yield a text in pieces; those that are one of the terms are highlighted."""
    marked = [False] * (len(text) + 1)
    for term in terms:
        place = text.find(term)
        while place >= 0:
            marked[place : place + len(term)] = [True] * len(term)
            place = text.find(term, place + 1)
    cuts = [0, *(place for place in range(1, len(text)) if marked[place] != marked[place - 1]), len(text)]
    for first, last in pairwise(cuts):
        if first < last:
            yield Piece(text[first:last], marked[first])
