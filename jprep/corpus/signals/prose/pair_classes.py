"""Classes of characters, and what two classes in a row say about a text."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.corpus.signals.character_kinds import CODE_POINTS, KINDS, kind_of_code_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

HIRAGANA = "".join(map(chr, range(0x3041, 0x3097)))
AFFINITY_UNIT = 0.25
"""Bits for 1 in the table of affinities."""

_FIRST = 1  # class 0: white space, symbols, most punctuation
_KANJI, _KATAKANA, _FOREIGN, _SENTENCE_END, _CLOSING, _OLD_PARTICLE = range(_FIRST + len(HIRAGANA), 93)
CLASSES = _OLD_PARTICLE + 1

_PARTICLES = "はがをにでとのもへや"
_FREQUENT_PAIRS = """
    です ます まし ませ した って ない いる ある から する して れる てい った こと ので とい いう だっ ため よう
    たい けれ なら なり けり ける たり べし たる たが たの るの しい この その あの これ それ には では とは での への
    との かっ らい なる えて れて んで いて みて きて
"""
_NO_AFFINITY = ord("Q")


class PairTables(NamedTuple):
    """What is known of two characters in a row, at `class * CLASSES + class`, each int8 of shape [CLASSES**2].

    Attributes:
        grammar: 1 where a particle follows a word, in a frequent ending or function word, where a sentence ends.
        kana: 1 where both are hiragana.
        affinity: for hiragana, how much more often than by chance one follows the other, in units of `AFFINITY_UNIT`.
    """

    grammar: NDArray[np.int8]
    kana: NDArray[np.int8]
    affinity: NDArray[np.int8]


@functools.cache
def class_of_code_points() -> NDArray[np.uint8]:
    """Return the class of each code point, uint8, shape [0x110000]."""
    kinds = kind_of_code_points()
    table = np.zeros(CODE_POINTS, np.uint8)
    table[kinds == KINDS.index("kanji")] = _KANJI
    table[kinds == KINDS.index("katakana")] = _KATAKANA
    table[np.isin(kinds, [KINDS.index("latin"), KINDS.index("digit")])] = _FOREIGN
    for characters, number in (("ヲニハノガトモ", _OLD_PARTICLE), ("。．｡", _SENTENCE_END), ("」』”）)", _CLOSING)):
        table[[ord(character) for character in characters]] = number
    table[[ord(character) for character in HIRAGANA]] = range(_FIRST, _FIRST + len(HIRAGANA))
    return table


@functools.cache
def pair_tables() -> PairTables:
    """Return the tables of pairs."""
    grammar, kana, affinity = (np.zeros((CLASSES, CLASSES), np.int8) for _ in range(3))
    hiragana = slice(_FIRST, _FIRST + len(HIRAGANA))
    kana[hiragana, hiragana] = 1
    affinity[hiragana, hiragana] = _affinities()
    words = [_KANJI, _KATAKANA, _OLD_PARTICLE, _FOREIGN, _CLOSING]
    for particle in _PARTICLES:
        grammar[words, _class(particle)] = 1
    for pair in _FREQUENT_PAIRS.split():
        grammar[_class(pair[0]), _class(pair[1])] = 1
    grammar[_KANJI, _OLD_PARTICLE] = 1
    grammar[[*range(_FIRST, _FIRST + len(HIRAGANA)), _KANJI, _KATAKANA, _OLD_PARTICLE], _SENTENCE_END] = 1
    return PairTables(grammar.ravel(), kana.ravel(), affinity.ravel())


def _class(hiragana: str) -> int:
    return _FIRST + HIRAGANA.index(hiragana)


def _affinities() -> NDArray[np.int64]:
    """Read the table of affinities: a row for each first hiragana, a letter for each second one, Q for no affinity."""
    lines = (files(__package__) / "kana_affinity.txt").read_text(encoding="ascii").splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    return np.frombuffer("".join(rows).encode(), np.uint8).reshape(len(HIRAGANA), -1).astype(np.int64) - _NO_AFFINITY
