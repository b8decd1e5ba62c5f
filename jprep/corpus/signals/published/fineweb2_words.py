"""Signals of FineWeb2 about words, by the definitions of datatrove's filters. Very costly: Sudachi finds the words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.corpus.segmenters.sudachi import SudachiSegmenter
from jprep.corpus.signals.published.fineweb2 import PUNCTUATION
from jprep.corpus.step import Signal, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

_TOP = range(2, 5)
_DUPLICATE = range(5, 11)
_COUNTS = (
    "words", "mean_word", "hashes_per_word", "ellipses_per_word", "alphabetic_word_share", "line_feeds_per_word",
    "stop_words",
)  # fmt: skip
_PIECE = 40_000  # bytes that datatrove gives to the analyzer at a time
_STEP = 10  # characters by which it lengthens and shortens a piece


class FineWeb2Words(Signal):
    """Words of Sudachi in its mode A, as datatrove's filters measure them. NaN if Sudachi fails.

    Columns: `fineweb2_top_2gram_share` to 4: characters of the most frequent n-gram of words, with spaces between them,
    times its occurrences, in all characters; `fineweb2_duplicate_5gram_share` to 10: characters of n-grams that
    occurred before, without overlaps. Of the words that are not only punctuation: their number `fineweb2_words` and
    mean length `fineweb2_mean_word`. Per word: `fineweb2_hashes_per_word`, `fineweb2_ellipses_per_word`,
    `fineweb2_alphabetic_word_share` (with a letter, which kana and kanji are) and `fineweb2_line_feeds_per_word`;
    `fineweb2_stop_words`: how many different stop words occur.
    """

    name = "fineweb2_words"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the signal `fineweb2_words`.

        Attributes:
            stop_words: words that ordinary text has.
        """

        stop_words: list[str] = []

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._stop_words = frozenset(self.config.stop_words)

    @cached_property
    def _analyzer(self) -> SudachiSegmenter:
        """Sudachi, loaded when it is first used: its dictionary takes long."""
        return SudachiSegmenter(SudachiSegmenter.Config(mode="A"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        ngrams = (*(f"top_{size}gram_share" for size in _TOP), *(f"duplicate_{size}gram_share" for size in _DUPLICATE))
        return tuple(f"fineweb2_{name}" for name in (*ngrams, *_COUNTS))

    def provenance(self) -> dict[str, str]:
        """Return the versions of Sudachi and its dictionary."""
        return self._analyzer.provenance()

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        rows = [self._measure(text) for text in batch.texts]
        values = np.array(rows, np.float64).reshape(-1, len(self.columns)).T
        return dict(zip(self.columns, values, strict=True))

    def _measure(self, text: str) -> list[float]:
        analyzer = self._analyzer  # outside of `try`: a missing library is an error
        try:
            words = [word for piece in split_pieces(text) for word in _words(analyzer, piece)]
        except Exception:  # SudachiPy has no common class of errors; the original fails on the document as well
            self.tally["unanalyzed"] += 1
            return [float("nan")] * len(self.columns)
        size = max(len(text), 1)
        top = [top_ngram_characters(words, each) / size for each in _TOP]
        duplicate = [duplicate_ngram_characters(words, each) / size for each in _DUPLICATE]
        return [*top, *duplicate, *self._counts(text, words)]

    def _counts(self, text: str, words: Sequence[str]) -> list[float]:
        lengths = [len(word) for word in words if not PUNCTUATION.issuperset(word)]
        per_word = (
            text.count("#"),
            text.count("...") + text.count("…"),
            sum(any(map(str.isalpha, word)) for word in words),
            text.count("\n"),
        )
        shares = [count / max(len(words), 1) for count in per_word]
        mean = sum(lengths) / len(lengths) if lengths else float("nan")
        return [len(lengths), mean, *shares, len(self._stop_words.intersection(words))]


def _words(analyzer: SudachiSegmenter, piece: str) -> list[str]:
    return [word for surface in analyzer.mark(piece).split(WORD) if (word := surface.strip())]


def top_ngram_characters(words: Sequence[str], size: int) -> int:
    """Return the characters of the most frequent n-gram, the first of several, times its occurrences."""
    ngrams = Counter(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    ngram, count = max(ngrams.items(), key=lambda item: item[1], default=("", 0))
    return len(ngram) * count


def duplicate_ngram_characters(words: Sequence[str], size: int) -> int:
    """Return the characters of n-grams that occurred before. The search continues after such an n-gram."""
    seen = set[str]()
    at = found = 0
    while at <= len(words) - size:
        ngram = "".join(words[at : at + size])
        known = ngram in seen
        seen.add(ngram)
        found += len(ngram) if known else 0
        at += size if known else 1
    return found


def split_pieces(text: str) -> Iterator[str]:
    """Yield the pieces in which datatrove analyzes a long text: words at their ends can be cut.

    A piece is as many characters as 40,000 bytes are on average, less 10, then longer or shorter by steps of 10.
    """
    sizes = code_points(text)
    behind = np.concatenate([[0], np.cumsum(1 + (sizes > 0x7F) + (sizes > 0x7FF) + (sizes > 0xFFFF))])
    guess = int(max(_PIECE * (len(text) / max(int(behind[-1]), 1)) - _STEP, 1))

    def too_long(start: int, end: int) -> int:
        return int(behind[min(end, len(text))] - behind[start]) - _PIECE

    start = 0
    while start < len(text):
        while too_long(start, start + guess) > 0:
            guess = max(guess - _STEP, 1)
        end = start + guess
        while too_long(start, end) < 0 and end < len(text):
            end = min(len(text), end + _STEP)
        end -= _STEP if too_long(start, end) > 0 else 0
        yield text[start:end]
        start = end
