"""Find the words of a list in many texts at once.

A table of hashed pairs of characters leaves few places at which a word can begin; there, the characters of the trie of
all words are followed for all places together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.corpus.code_points import code_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 16
_CHUNK = 1 << 15
_FIRST, _SECOND, _THIRD = (np.uint32(odd) for odd in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D))
_LINE_FEED, _CASE, _LETTERS = 10, 32, 26
_NOT_A_WORD = -1


class Matches(NamedTuple):
    """Where words stand.

    Attributes:
        starts: where each begins, shape [matches].
        ends: the end of each, exclusive.
        words: the index of each word.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    words: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> Matches:
        """Return some of the matches."""
        return Matches(self.starts[rows], self.ends[rows], self.words[rows])

    def outermost(self) -> Matches:
        """Return the matches that do not lie within another, ordered by their beginnings."""
        ordered = self.take(np.lexsort((-self.ends, self.starts)))
        before = np.maximum.accumulate(np.append(0, ordered.ends))[:-1]
        return ordered.take(np.flatnonzero(ordered.ends > before))

    @property
    def covered(self) -> NDArray[np.int64]:
        """The number of characters in each match, without those in the match before; for the outermost matches."""
        covered: NDArray[np.int64] = self.ends - np.maximum(self.starts, np.append(0, self.ends[:-1]))
        return covered


class WordMatcher:
    """Finds words in code points, whatever the case of their ASCII letters.

    A word that begins or ends with an ASCII letter, a digit or a katakana does not stand within a longer run of the
    same: `ガイジ` is not found in `ガイジン`, nor `ass` in `class`.

    Args:
        words: words of at least two characters, none with a line feed, that differ by more than the case of letters.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._pairs, self._whole, self._triples = np.zeros((3, 1 << _BITS), bool)
        edges, ends = dict[tuple[int, int], int](), dict[int, int]()
        for number, word in enumerate(words):
            codes = lowered(code_points(word))
            self._pairs[_hashes(codes[:2])] = True
            self._whole[_hashes(codes[:2])] |= len(codes) == 2
            self._triples[_hashes_of_three(codes[:1], codes[1:2], codes[2:3])] = True
            state = 0
            for code in codes.tolist():
                state = edges.setdefault((state, code), len(edges) + 1)
            ends[state] = number
        keys = np.array([(state << 32) | code for state, code in edges], np.int64)
        order = np.argsort(keys)
        self._keys, self._targets = keys[order], np.array([*edges.values()], np.int64)[order]
        self._words = np.full(len(edges) + 1, _NOT_A_WORD)
        self._words[[*ends]] = [*ends.values()]

    def find(self, codes: NDArray[np.uint32]) -> Matches:
        """Return all words in code points that end with a line feed, in no particular order."""
        codes = lowered(codes)
        starts = [chunk + self._places(codes[chunk : chunk + _CHUNK + 2]) for chunk in range(0, len(codes), _CHUNK)]
        found = self._follow(codes, np.concatenate([*starts, np.zeros(0, np.int64)]))
        return found.take(np.flatnonzero(_stands_alone(codes, found)))

    def _places(self, codes: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return at which of the first `_CHUNK` characters a word can begin, by its first two or three characters."""
        pairs = _hashes(codes[: _CHUNK + 1])
        places = np.flatnonzero(self._pairs.take(pairs))
        third = codes.take(places + 2, mode="clip")
        longer = self._triples.take(_hashes_of_three(codes[places], codes[places + 1], third))
        return places[longer | self._whole.take(pairs[places])]

    def _follow(self, codes: NDArray[np.uint32], starts: NDArray[np.int64]) -> Matches:
        """Return the words that begin at some places, by following the edges of the trie from all of them at once."""
        found = [Matches(*np.zeros((3, 0), np.int64))]
        states, ends = np.zeros(len(starts), np.int64), starts
        while len(starts):
            wanted = (states << 32) | codes[ends]
            edges = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            goes_on = np.flatnonzero(self._keys[edges] == wanted)
            starts, ends, states = starts[goes_on], ends[goes_on] + 1, self._targets[edges[goes_on]]
            complete = np.flatnonzero(self._words[states] != _NOT_A_WORD)
            found.append(Matches(starts, ends, self._words[states]).take(complete))
        return Matches(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def lowered(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return code points with ASCII letters in lower case."""
    upper = codes - np.uint32(ord("A")) < _LETTERS  # smaller ones wrap around
    return codes + np.uint32(_CASE) * upper


def _hashes(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the place of each two neighbours in the table of pairs."""
    places: NDArray[np.uint32] = (codes[:-1] * _FIRST + codes[1:] * _SECOND) >> np.uint32(32 - _BITS)
    return places


def _hashes_of_three(*codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the place of some three characters, each given with the others of its rank, in the table of triples."""
    first, second, third = codes
    places: NDArray[np.uint32] = (first * _FIRST + second * _SECOND + third * _THIRD) >> np.uint32(32 - _BITS)
    return places


def _stands_alone(codes: NDArray[np.uint32], found: Matches) -> NDArray[np.bool_]:
    """Return whether each word is not part of a longer run of ASCII letters and digits, or of katakana."""
    first, last = _runs(codes[found.starts]), _runs(codes[found.ends - 1])
    before = np.where(found.starts > 0, _runs(codes[found.starts - 1]), 0)
    after = _runs(codes[found.ends])
    alone: NDArray[np.bool_] = ((first == 0) | (first != before)) & ((last == 0) | (last != after))
    return alone


def _runs(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return 1 for ASCII letters in lower case and digits, 2 for katakana, 0 for other characters."""
    ascii_word = ((codes >= ord("a")) & (codes <= ord("z"))) | ((codes >= ord("0")) & (codes <= ord("9")))
    katakana = (codes >= ord("ァ")) & (codes <= ord("ヾ")) & (codes != ord("・"))
    katakana |= (codes >= ord("ｦ")) & (codes <= ord("ﾟ"))
    runs: NDArray[np.uint8] = ascii_word + np.uint8(2) * katakana
    return runs
