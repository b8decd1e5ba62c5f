"""Accumulate the metrics of one tokenizer on a text, batch by batch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from jprep.corpus.document import WORD
from jprep.tokenizer.encoding.batch import TokenSpans
from jprep.tokenizer.evaluation.adapter import Integers, TokenizerAdapter, text_offsets
from jprep.tokenizer.evaluation.boundaries import (
    Positions,
    boundary_candidates,
    count_cutting,
    token_boundaries,
    word_boundaries,
)
from jprep.tokenizer.evaluation.scores import RoundTripDifference, Scores, WordAlignment

RENYI_ORDER = 2.5
"""Order of Rényi's entropy. Zouhar et al. (2023) found that it predicts translation quality best with 2.5."""

SHOWN = 10
"""Maximum number of long words, and of characters that are not decoded, in a score."""

_DIFFERING = 5
_AROUND = 20  # characters shown per difference
_FREQUENT = 100_000  # a frequent word is at least one of this many
_MAX_WORDS = 1_000_000  # distinct words kept in memory
_TIMED = 2_000_000  # characters encoded to measure speed
_PASSES = 3


class MetricsAccumulator:
    """Accumulated counts of one tokenizer.

    Args:
        encoder: the tokenizer.

    Attributes:
        spaced: whether the tokenizer expects text with spaces between words, to add and to compare.
    """

    def __init__(self, encoder: TokenizerAdapter) -> None:
        self._encoder, self.spaced = encoder, encoder.spaced
        self._paragraphs = self._characters = self._bytes = self._lossless = 0
        self._uses = np.zeros(encoder.size, np.int64)
        self._differing: list[RoundTripDifference] = []
        self._lost: Counter[str] = Counter()
        self._gained: Counter[str] = Counter()
        self._boundaries = np.zeros(3, np.int64)  # of words, of tokens, of both
        self._cutting = 0
        self._words: Counter[str] = Counter()
        self._total_words = 0
        self._marks_seen = False
        self._timed: list[list[str]] = []
        self._timed_characters = self._timed_bytes = 0

    def add(self, marked: Sequence[str]) -> None:
        """Evaluate a batch of paragraphs.

        Args:
            marked: normalized, with U+001F between words if they are known.
        """
        texts = [paragraph.replace(WORD, "") for paragraph in marked]
        given = list(marked) if self._encoder.marked else texts
        encoded = self._encoder.encode(given)
        bases = text_offsets(texts)
        self._uses += np.bincount(encoded.ids, minlength=self._encoder.size)
        self._compare(texts, self._encoder.decode(encoded))
        self._align(texts, marked, token_boundaries(encoded, bases))
        self._count_words(marked)
        self._paragraphs += len(texts)
        self._characters += int(bases[-1])
        size = sum(len(text.encode(errors="surrogatepass")) for text in texts)
        self._bytes += size
        if self._timed_characters < _TIMED:
            self._timed.append(given)
            self._timed_characters += int(bases[-1])
            self._timed_bytes += size

    def _compare(self, texts: Sequence[str], decoded: Sequence[str]) -> None:
        for number, (text, other) in enumerate(zip(texts, decoded, strict=True), self._paragraphs):
            if text == other:
                self._lossless += 1
                continue
            before, after = Counter(text), Counter(other)
            self._lost += before - after
            self._gained += after - before
            if len(self._differing) < _DIFFERING:
                at = _first_difference(text, other)
                self._differing.append(
                    RoundTripDifference(number, at, text[at : at + _AROUND], other[at : at + _AROUND])
                )

    def _align(self, texts: Sequence[str], marked: Sequence[str], tokens: Positions) -> None:
        inside = boundary_candidates(texts)
        words = word_boundaries(marked) & inside
        self._cutting += count_cutting(texts, words, tokens)
        tokens = tokens & inside
        self._boundaries += [words.sum(), tokens.sum(), (words & tokens).sum()]

    def _count_words(self, marked: Sequence[str]) -> None:
        joined = WORD.join(marked)
        self._marks_seen = self._marks_seen or joined.count(WORD) >= len(marked)
        words = Counter(joined.split(WORD))
        self._total_words += sum(count for word, count in words.items() if word and not word.isspace())
        self._words.update({word: count for word, count in words.items() if word.isalpha() and not word.isascii()})
        if len(self._words) > _MAX_WORDS:
            self._words = Counter(dict(self._words.most_common(_MAX_WORDS // 2)))

    def scores(self, *, speed: bool) -> Scores:
        """Return the scores.

        Args:
            speed: whether to measure speed, by encoding the beginning of the text a few more times.
        """
        encoder = self._encoder
        words = self._word_alignment() if self._marks_seen else None
        return Scores(
            tokenizer=encoder.name,
            identity=encoder.identity,
            model=encoder.model,
            traits=dict(encoder.traits),
            vocab_size=encoder.size,
            paragraphs=self._paragraphs,
            characters=self._characters,
            bytes=self._bytes,
            tokens=int(self._uses.sum()),
            unknown=int(self._uses[encoder.unknown]) if encoder.unknown >= 0 else 0,
            parts=int(self._uses[encoder.parts].sum()),
            lossless=self._lossless,
            differing=self._differing,
            lost=_largest(self._lost),
            gained=_largest(self._gained),
            used=int(np.count_nonzero(self._uses)),
            renyi_efficiency=renyi_efficiency(self._uses),
            words=words,
            longest=self._longest() if words else {},
            speed=self._speed() if speed else 0.0,
        )

    def _word_alignment(self) -> WordAlignment:
        words, tokens, both = map(int, self._boundaries)
        return WordAlignment(
            words=self._total_words, boundaries=words, token_boundaries=tokens, kept=both, cutting=self._cutting
        )

    def _longest(self) -> dict[str, str]:
        least = max(2, math.ceil(self._total_words / _FREQUENT))
        frequent = [(-len(word), -count, word) for word, count in self._words.items() if count >= least]
        words = [word for _, _, word in sorted(frequent)[:SHOWN]]
        return {word: "|".join(pieces(word, self._encoder.encode([word]))) for word in words}

    def _speed(self) -> float:
        """Return the best speed of a few passes over the same text."""
        best = min(self._seconds() for _ in range(_PASSES))
        return self._timed_bytes / 1e6 / best if best else 0.0

    def _seconds(self) -> float:
        before = time.process_time()
        for batch in self._timed:
            self._encoder.encode_only(batch)
        return time.process_time() - before


def renyi_efficiency(uses: Integers) -> float:
    """Return Rényi's entropy of the use of ids, divided by that of a uniformly used vocabulary; see `Scores`.

    Args:
        uses: count of each id, shape [ids].
    """
    total = uses.sum()
    if not total or len(uses) < 2:
        return 0.0
    shares = uses[uses > 0] / total
    return float(np.log((shares**RENYI_ORDER).sum()) / (1 - RENYI_ORDER) / np.log(len(uses)))


def pieces(text: str, encoded: TokenSpans) -> list[str]:
    """Cut a text at its token boundaries."""
    places = np.flatnonzero(token_boundaries(encoded, text_offsets([text]))[1:-1]) + 1
    ends = [0, *places.tolist(), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def _first_difference(text: str, other: str) -> int:
    pairs = zip(text, other, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(text), len(other)))


def _largest(counts: Counter[str]) -> dict[str, int]:
    """Return the largest counts, ties by code point."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN])
