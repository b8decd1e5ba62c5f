"""Encode marked texts, and mark the tokens that begin a word or a sentence: a class for each way to find them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import UNMARK, WORD
from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.preprocessing.marked_text import Integers, MarkedTexts
from jprep.dataset.preprocessing.span_marks import span_marks
from jprep.errors import JprepError
from jprep.tokenizer.formats.pieces import piece_bytes
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX

Ids = npt.NDArray[np.int32]
TokenStarts = tuple[npt.NDArray[np.bool_], Integers]
"""Which tokens begin with the first byte of a character, and the positions of those characters among all."""

_BATCH_SIZE = 4096  # texts per call of the tokenizer


class MarkedTokens(NamedTuple):
    """The tokens of some texts.

    Attributes:
        ids: int32, (tokens,).
        marks: uint8, (tokens,).
        offsets: text i has the tokens `offsets[i]` to before `offsets[i + 1]`, int64, (texts + 1,).
    """

    ids: Any
    marks: Marks
    offsets: Integers


class MarkingEncoder(ABC):
    """Encode texts, and find the tokens at which words and sentences start.

    Args:
        tokenizer: a finished tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @abstractmethod
    def encode(self, texts: MarkedTexts) -> MarkedTokens:
        """Encode texts.

        Raises:
            JprepError: the tokens do not cover each character of the text exactly once.
        """


class SpanEncoder(MarkingEncoder):
    """For tokenizers that tell which characters their tokens cover."""

    def encode(self, texts: MarkedTexts) -> MarkedTokens:
        """See `MarkingEncoder`."""
        found = self._tokenizer.encode_with_spans(texts.texts)
        return MarkedTokens(found.ids, span_marks(texts, found), found.offsets)


class _PieceEncoder(MarkingEncoder):
    """For tokenizers whose tokens are found by their pieces."""

    def encode(self, texts: MarkedTexts) -> MarkedTokens:
        """See `MarkingEncoder`."""
        ids, offsets = self._ids(texts.texts)
        begins, places = self._starts(texts, ids, offsets)
        marks = np.zeros(len(ids), np.uint8)
        marks[begins] = texts.starts[places]
        return MarkedTokens(ids, marks, offsets)

    def _ids(self, texts: list[str]) -> tuple[Ids, Integers]:
        """Return the ids and offsets of all texts. Texts are encoded in batches to bound memory."""
        batches = range(0, len(texts), _BATCH_SIZE)
        parts = [self._tokenizer.encode_batch(texts[at : at + _BATCH_SIZE], normalized=True) for at in batches]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(lengths)])

    @abstractmethod
    def _starts(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> TokenStarts:
        """Return which tokens begin a character, and where."""


class CharacterEncoder(_PieceEncoder):
    """Finds the first character of each token from the number of characters that each id covers."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        spelt = piece_bytes(_pieces(tokenizer), tokenizer.card.config, tokenizer.special)
        # A piece may begin inside a character.
        self._begins_character = np.array([piece[:1] < b"\x80" or piece[:1] >= b"\xc0" for piece in spelt])

    def _starts(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> TokenStarts:
        before, begins = np.zeros(len(ids) + 1, np.int64), self._begins_character[ids]
        np.cumsum(self._tokenizer.characters[ids], out=before[1:])
        first = before[offsets]
        if (np.diff(first) != np.diff(texts.begins, append=len(texts.starts) + 1) - 1).any():
            raise _unaligned()
        places = before[:-1] + np.repeat(texts.begins - first[:-1], np.diff(offsets))
        return begins, places[begins]


class UnitEncoder(_PieceEncoder):
    """Finds the first token of each unit from the pieces without a `##` prefix.

    It is for WordPiece under hard boundaries, where the unknown token covers a whole unit of any length.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self._begins_unit = np.array([not piece.startswith(CONTINUATION_PREFIX) for piece in _pieces(tokenizer)])

    def _starts(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> TokenStarts:
        """See `_PieceEncoder`.

        Where the number of such pieces differs from the number of units, a unit itself begins with `##`; that text is
        encoded unit by unit.
        """
        begins, units = self._begins_unit[ids], np.flatnonzero(texts.cuts)
        bounds = np.searchsorted(units, np.append(texts.begins, len(texts.starts)))
        found = np.diff(np.concatenate([[0], np.cumsum(begins)])[offsets])
        for number in np.flatnonzero(found != np.diff(bounds)):
            cuts = units[bounds[number] : bounds[number + 1]] - texts.begins[number]
            tokens = slice(offsets[number], offsets[number + 1])
            if len(starts_unit := self._one_by_one(texts.texts[number], cuts)) != len(ids[tokens]):
                raise _unaligned()
            begins[tokens] = starts_unit
        if np.count_nonzero(begins) != len(units):
            raise _unaligned()
        return begins, units

    def _one_by_one(self, text: str, cuts: Integers) -> npt.NDArray[np.bool_]:
        """Return which tokens of a text are the first of their unit, by encoding each unit separately."""
        plain = text.translate(UNMARK)
        units = [plain[start:end] + WORD for start, end in pairwise([*cuts.tolist(), len(plain)])]
        ids, offsets = self._tokenizer.encode_batch(units, normalized=True)
        begins = np.zeros(len(ids), bool)
        begins[offsets[:-1]] = True
        return begins


def marking_encoder(tokenizer: Tokenizer) -> MarkingEncoder:
    """Return the encoder that finds the words of a tokenizer's tokens."""
    if tokenizer.has_spans:
        return SpanEncoder(tokenizer)
    config = tokenizer.card.config
    by_unit = config.boundaries == "hard" and config.model == "wordpiece"
    return UnitEncoder(tokenizer) if by_unit else CharacterEncoder(tokenizer)


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece_of(number) for number in range(tokenizer.vocab_size)]


def _unaligned() -> JprepError:
    return JprepError("the tokens do not cover the characters of the text", fix="please report this bug")
