"""Find sequences of frequent words in marked text: what `boundaries = "super"` learns pieces of several words from.

A sequence is written as one character for each word, so that it is counted, sorted and learnt from as a unit is.
Words that are not among the most frequent, runs of spaces, and under `digits = "split"` digits are in no sequence; no
sequence crosses the end of a sentence, or that of a line unless `newline = "space"`. A sequence of many words would
occur once, so it is cut before its rarest word, until no part has more than `MAX_WORDS`: at the places where a piece is
least likely to be learnt.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.counting.units import UNIT_TYPE, array, pieces, views, without_separators

VERSION = 1
"""Increased when the same text would give different sequences than before."""

MAX_WORDS = 8
"""Maximum words per sequence. With 8 texts take as few tokens as without a limit, with 4 they take 0.4 % more."""

FIRST_SYMBOL = 0x10000
"""Code point of the most frequent word; the others follow by rank. There are a million from here."""

_WORDS_OF_IDS = 4  # one of so many ids is a word of sequences: with all words, texts take as many tokens
_MOST_SYMBOLS = 1 << 19
_ROUNDS = 16  # cuts of a long sequence before its rarest words; a longer rest is cut every `MAX_WORDS` words
_NEVER = -2
_ENDS = r"[\x00\t\n\r\x1e][\x00\t\n\r\x1e\x1f]*$"
_BEGINS = r"\x1e[\x1e\x1f]*[^\x00\t\n\r\x1e\x1f]"


def symbol_count(config: TokenizerConfig) -> int:
    """Return the number of words that can be in a sequence."""
    return min(max(1, config.vocab_size // _WORDS_OF_IDS), _MOST_SYMBOLS)


def frequent_words(path: Path, config: TokenizerConfig) -> list[str]:
    """Return the words that can be in a sequence, by rank, from a file of counted units."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [line.rpartition("\t")[0] for line in islice(lines, symbol_count(config))]


class SequenceFinder:
    """Find sequences.

    Args:
        words: frequent words by rank.
        config: policies for spaces, digits and newlines.
    """

    def __init__(self, words: list[str], config: TokenizerConfig) -> None:
        single = re.compile(f" *|[{DIGITS}]" if config.digits == "split" else " *")
        self._words = pa.array([word.encode() for word in words], UNIT_TYPE)
        self._newline_is_space = config.newline == "space"
        self._joined = np.array([not single.fullmatch(word) for word in words], bool)
        spelt = "".join(chr(FIRST_SYMBOL + rank) for rank in range(len(words))).encode()
        self._symbols = np.frombuffer(spelt, np.uint8).reshape(-1, 4)

    def find(self, rows: Any) -> Any:
        """Return the sequences of two or more words of an Arrow array of marked texts, as byte strings."""
        tab, nothing = pa.scalar("\t", rows.type), pa.scalar("", rows.type)
        texts = pc.binary_join_element_wise(rows, tab, nothing)  # no sequence crosses from one text to the next
        coded = pieces(texts, newline_is_space=self._newline_is_space).dictionary_encode()
        if not len(coded):
            return pa.array([], UNIT_TYPE)
        at = coded.indices.to_numpy()
        ranks = self._ranks(coded.dictionary)[at]
        starts = _starts(ranks, _matches(coded.dictionary, _BEGINS)[at], _matches(coded.dictionary, _ENDS)[at])
        _cut(ranks, starts)
        return self._spell(ranks, starts)

    def _ranks(self, values: Any) -> Any:
        """Return the rank of the word of each piece of text, or -1 if it is in no sequence."""
        words = array(*without_separators(*views(values)))
        found = pc.index_in(words, value_set=self._words).fill_null(-1).to_numpy()
        return np.where((found >= 0) & self._joined[found], found, -1)

    def _spell(self, ranks: Any, starts: Any) -> Any:
        sizes = np.diff(np.append(np.flatnonzero(starts), len(starts)))
        data = self._symbols[ranks[np.repeat(sizes > 1, sizes)]].ravel()
        return array(np.concatenate([[0], np.cumsum(4 * sizes[sizes > 1])]), data)


def _matches(values: Any, pattern: str) -> Any:
    return pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False)


def _starts(ranks: Any, begins: Any, ends: Any) -> Any:
    """Return where a sequence starts; a word that is in none stands alone.

    Args:
        ranks: rank of each word, or -1.
        begins: whether a sentence begins with the word, by a mark after its space.
        ends: whether a sentence or a line ends after the word.
    """
    starts = np.ones(len(ranks), bool)
    alone = ranks < 0
    starts[1:] = alone[1:] | alone[:-1] | begins[1:] | ends[:-1]
    return starts


def _cut(ranks: Any, starts: Any) -> None:
    """Mark further starts, so that no sequence has more than `MAX_WORDS` words."""
    for _ in range(_ROUNDS):
        first = np.flatnonzero(starts)
        sizes = np.diff(np.append(first, len(starts)))
        if sizes.max() <= MAX_WORDS:
            return
        later = np.where(starts, -1, ranks)
        rarest = np.where(sizes > MAX_WORDS, np.maximum.reduceat(later, first), _NEVER)
        starts |= later == np.repeat(rarest, sizes)
    first = np.flatnonzero(starts)
    place = np.arange(len(starts)) - np.repeat(first, np.diff(np.append(first, len(starts))))
    starts |= place % MAX_WORDS == 0
