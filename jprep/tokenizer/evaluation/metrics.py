"""Adds up what one tokenizer does with a text, batch by batch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from jprep.corpus.document import WORD
from jprep.tokenizer.evaluation.adapter import EncodingWithOffsets, Integers, TokenizerAdapter, text_offsets
from jprep.tokenizer.evaluation.boundaries import Positions, boundary_candidates, token_boundaries, word_boundaries
from jprep.tokenizer.evaluation.scores import RoundTripDifference, Scores, WordAlignment

RENYI_ORDER = 2.5
"""Of Rényi's entropy: with it Zouhar et al. (2023) foretell translation quality best."""

SHOWN = 10
"""Long words, and characters that do not come back, of which a score tells."""

_DIFFERING = 5
_AROUND = 20  # characters shown of a difference
_FREQUENT = 100_000  # a frequent word is at least one in so many
_MOST_WORDS = 1_000_000  # distinct ones that are kept in mind
_TIMED = 2_000_000  # characters that are encoded again for the speed
_PASSES = 3


class MetricsAccumulator:
    """One tokenizer's counts so far.

    Args:
        encoder: the tokenizer.
    """

    def __init__(self, encoder: TokenizerAdapter) -> None:
        self._encoder = encoder
        self._paragraphs = self._characters = self._bytes = self._lossless = 0
        self._uses = np.zeros(encoder.size, np.int64)
        self._differing: list[RoundTripDifference] = []
        self._lost: Counter[str] = Counter()
        self._gained: Counter[str] = Counter()
        self._boundaries = np.zeros(3, np.int64)  # of words, of tokens, of both
        self._words: Counter[str] = Counter()
        self._total_words = 0
        self._marks_seen = False
        self._timed: list[list[str]] = []
        self._timed_characters = self._timed_bytes = 0

    def add(self, marked: Sequence[str]) -> None:
        """Measure some paragraphs.

        Args:
            marked: normalised, U+001F between words where they are known.
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
        tokens = tokens & inside
        self._boundaries += [words.sum(), tokens.sum(), (words & tokens).sum()]

    def _count_words(self, marked: Sequence[str]) -> None:
        joined = WORD.join(marked)
        self._marks_seen = self._marks_seen or joined.count(WORD) >= len(marked)
        words = Counter(joined.split(WORD))
        self._total_words += sum(count for word, count in words.items() if word and not word.isspace())
        self._words.update({word: count for word, count in words.items() if word.isalpha() and not word.isascii()})
        if len(self._words) > _MOST_WORDS:
            self._words = Counter(dict(self._words.most_common(_MOST_WORDS // 2)))

    def scores(self, *, speed: bool) -> Scores:
        """What was measured.

        Args:
            speed: encode the beginning of the text again, a few times, and say how fast.
        """
        encoder = self._encoder
        words = self._how_words_fare() if self._marks_seen else None
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
            lost=_most(self._lost),
            gained=_most(self._gained),
            used=int(np.count_nonzero(self._uses)),
            renyi_efficiency=renyi_efficiency(self._uses),
            words=words,
            longest=self._longest() if words else {},
            speed=self._speed() if speed else 0.0,
        )

    def _how_words_fare(self) -> WordAlignment:
        words, tokens, both = map(int, self._boundaries)
        return WordAlignment(words=self._total_words, boundaries=words, token_boundaries=tokens, kept=both)

    def _longest(self) -> dict[str, str]:
        least = max(2, math.ceil(self._total_words / _FREQUENT))
        frequent = [(-len(word), -count, word) for word, count in self._words.items() if count >= least]
        words = [word for _, _, word in sorted(frequent)[:SHOWN]]
        return {word: "|".join(pieces(word, self._encoder.encode([word]))) for word in words}

    def _speed(self) -> float:
        """The best of a few passes over the same text."""
        best = min(self._seconds() for _ in range(_PASSES))
        return self._timed_bytes / 1e6 / best if best else 0.0

    def _seconds(self) -> float:
        before = time.process_time()
        for batch in self._timed:
            self._encoder.encode_only(batch)
        return time.process_time() - before


def renyi_efficiency(uses: Integers) -> float:
    """Rényi's entropy of how often ids are used, over that of a vocabulary used evenly; see `Scores`.

    Args:
        uses: of each id, shape [ids].
    """
    total = uses.sum()
    if not total or len(uses) < 2:
        return 0.0
    shares = uses[uses > 0] / total
    return float(np.log((shares**RENYI_ORDER).sum()) / (1 - RENYI_ORDER) / np.log(len(uses)))


def pieces(text: str, encoded: EncodingWithOffsets) -> list[str]:
    """A text cut where its tokens begin."""
    places = np.flatnonzero(token_boundaries(encoded, text_offsets([text]))[1:-1]) + 1
    ends = [0, *places.tolist(), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def _first_difference(text: str, other: str) -> int:
    pairs = zip(text, other, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(text), len(other)))


def _most(counts: Counter[str]) -> dict[str, int]:
    """The largest counts, ties by code point."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN])
