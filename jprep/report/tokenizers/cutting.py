"""Texts cut by several tokenizers, each prepared as the tokenizer expects it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple

import numpy as np

from jprep.corpus.config import DEFAULT_SEGMENTER, make_step
from jprep.corpus.document import WORD
from jprep.errors import ConfigError, MachineError
from jprep.report.tokenizers.texts import KindOfText
from jprep.tokenizer.encoding.batch import TokenSpans
from jprep.tokenizer.evaluation import Scores, TokenizerAdapter
from jprep.tokenizer.evaluation.adapter import text_offsets
from jprep.tokenizer.evaluation.boundaries import token_boundaries, word_boundaries
from jprep.tokenizer.evaluation.compare import preprocessing
from jprep.tokenizer.evaluation.evaluate import Preprocess, evaluate
from jprep.tokenizer.evaluation.input_text import EvaluationText
from jprep.tokenizer.word_spaces import separate_words

SEGMENTER = DEFAULT_SEGMENTER
"""The segmenter that finds the words of texts whose words are unknown."""


class CutPiece(NamedTuple):
    """A part of a text between two token boundaries.

    Attributes:
        words: its text, cut where a word begins inside it.
        tokens: number of tokens: more than one where a character is spelt in bytes.
        unknown: whether a token is the unknown one.
        bytes: whether a token stands for a part of a character.
    """

    words: list[str]
    tokens: int
    unknown: bool
    bytes: bool

    @property
    def text(self) -> str:
        """The text of the piece."""
        return "".join(self.words)


class CutText(NamedTuple):
    """A text cut by one tokenizer.

    Attributes:
        tokenizer: its name.
        pieces: the pieces in order.
    """

    tokenizer: str
    pieces: list[CutPiece]

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(piece.tokens for piece in self.pieces)


class PreparedTokenizers:
    """Tokenizers, with the steps that texts go through before each. Use it in a `with` block, which closes the steps.

    Args:
        encoders: the tokenizers.

    Attributes:
        encoders: the tokenizers.
        segmenter: the segmenter of texts whose words are unknown; "" if it is not installed.
    """

    def __init__(self, encoders: Sequence[TokenizerAdapter]) -> None:
        self.encoders, self._stack = encoders, ExitStack()
        self.segmenter = SEGMENTER if _is_usable(SEGMENTER) else ""
        self._prepared: dict[tuple[int, bool, bool], Preprocess] = {}

    def __enter__(self) -> PreparedTokenizers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def knows_words(self, text: EvaluationText) -> bool:
        """Return whether word boundaries of a text are known or can be found."""
        return text.has_words or bool(self.segmenter)

    def prepare(self, number: int, text: EvaluationText) -> Preprocess:
        """Return what prepares paragraphs of a text for a tokenizer, by its number."""
        key = number, text.normalized, text.has_words
        if key not in self._prepared:
            encoder = self.encoders[number]
            own = encoder.segmenter if encoder.marked and encoder.segmenter else self.segmenter
            segmenter = "" if text.has_words else own
            self._prepared[key] = preprocessing(encoder, text, segmenter, self._stack)
        return self._prepared[key]

    def scores(self, kind: KindOfText) -> list[Scores]:
        """Return the scores of each tokenizer on texts of a kind, without speed."""
        pairs = [(encoder, self.prepare(number, kind.text)) for number, encoder in enumerate(self.encoders)]
        return evaluate(pairs, kind.text.paragraphs, speed=False)

    def cut(self, text: str, like: EvaluationText) -> list[CutText]:
        """Return a text cut by each tokenizer.

        Args:
            text: one paragraph.
            like: what is known about the text.
        """
        return [
            CutText(encoder.name, list(_pieces(*encoded(encoder, self.prepare(number, like), [text]))))
            for number, encoder in enumerate(self.encoders)
        ]


def encoded(
    encoder: TokenizerAdapter, prepare: Preprocess, paragraphs: list[str]
) -> tuple[TokenizerAdapter, list[str], TokenSpans]:
    """Return a tokenizer, paragraphs as it expects them, with word marks, and their tokens."""
    ready = [separate_words(each) if encoder.spaced else each for each in prepare(paragraphs)]
    given = ready if encoder.marked else [each.replace(WORD, "") for each in ready]
    return encoder, ready, encoder.encode(given)


def _pieces(encoder: TokenizerAdapter, marked: list[str], found: TokenSpans) -> Iterator[CutPiece]:
    text = "".join(each.replace(WORD, "") for each in marked)
    words = np.flatnonzero(word_boundaries(marked))
    boundaries = token_boundaries(found, text_offsets([text])).copy()
    boundaries[[0, -1]] = True
    starts = np.minimum(found.starts, max(len(text) - 1, 0))
    for start, end in pairwise(np.flatnonzero(boundaries).tolist()):
        own = found.ids[(starts >= start) & (starts < end)]
        inner = words[(words > start) & (words < end)].tolist()
        parts = [text[low:high] for low, high in pairwise([start, *inner, end])]
        yield CutPiece(parts, len(own), bool((own == encoder.unknown).any()), bool(encoder.parts[own].any()))


def _is_usable(segmenter: str) -> bool:
    try:
        make_step("segmenter", segmenter).close()
    except (ConfigError, MachineError):
        return False
    return True
