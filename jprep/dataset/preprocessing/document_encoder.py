"""Texts to tokens with their marks, many documents at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import UNMARK, WORD
from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.indexed.split import dtype_of, stored_dtype
from jprep.dataset.preprocessing.marked_text import Integers, MarkedTexts, parse_documents
from jprep.errors import ConfigError, JprepError
from jprep.tokenizer.formats.pieces import piece_bytes
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX

Ids = npt.NDArray[np.int32]
Begun = tuple[npt.NDArray[np.bool_], Integers]
"""Which tokens begin with a character's first byte, and the places of those characters among all."""


_AT_ONCE = 4096  # texts that the tokenizer is given at a time


class EncodedDocuments(NamedTuple):
    """Some documents, encoded.

    Attributes:
        tokens: one behind the other, each document with its end, uint16 or int32, (tokens,).
        marks: uint8, (tokens,).
        lengths: tokens of each document, int64, (documents,).
        size: bytes of each document's text, int64, (documents,).
    """

    tokens: npt.NDArray[Any]
    marks: Marks
    lengths: Integers
    size: Integers


class DocumentEncoder:
    """Encodes documents, paragraph by paragraph, and finds the tokens at which words and sentences start.

    Args:
        tokenizer: a finished one.

    Attributes:
        end: the id that ends a document.
        newline: the id between two paragraphs; -1 where a newline is a space to the tokenizer.
        dtype: of a token.

    Raises:
        ConfigError: the tokenizer has no token that could end a document.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._config = tokenizer, tokenizer.card.config
        self.dtype = dtype_of(tokenizer.vocab_size)
        self.end, self.newline = end_of_document_id(tokenizer), _newline(tokenizer)
        pieces = [tokenizer.piece_of(number) for number in range(tokenizer.vocab_size)]
        self._by_unit = self._config.boundaries == "hard" and self._config.model == "wordpiece"
        if self._by_unit:  # the unknown token stands for a whole unit, however long
            self._whole = np.array([not piece.startswith(CONTINUATION_PREFIX) for piece in pieces])
        else:  # a piece may begin within a character
            spelt = piece_bytes(pieces, self._config, tokenizer.special)
            self._whole = np.array([piece[:1] < b"\x80" or piece[:1] >= b"\xc0" for piece in spelt])

    def encode(self, documents: list[bytes]) -> EncodedDocuments:
        """Encode documents.

        Args:
            documents: their `words`, UTF-8; one or more.

        Raises:
            JprepError: the tokenizer's tokens do not stand for the text's characters, each once.
        """
        texts = parse_documents(documents, self._config)
        ids, offsets = self._ids(texts.texts)
        begun, places = (self._by_units if self._by_unit else self._by_characters)(texts, ids, offsets)
        marks = np.zeros(len(ids), np.uint8)
        marks[begun] = texts.starts[places]
        return self._joined(texts, ids, marks, offsets)

    def _ids(self, texts: list[str]) -> tuple[Ids, Integers]:
        """The ids of texts, and where each text's begin; stretch by stretch, for encoders make large objects."""
        stretches = range(0, len(texts), _AT_ONCE)
        parts = [self._tokenizer.encode_batch(texts[at : at + _AT_ONCE], normalized=True) for at in stretches]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(lengths)])

    def _by_characters(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> Begun:
        """Tokens begin where those before them end."""
        before, begun = np.zeros(len(ids) + 1, np.int64), self._whole[ids]
        np.cumsum(self._tokenizer.characters[ids], out=before[1:])
        first = before[offsets]
        if (np.diff(first) != np.diff(texts.begins, append=len(texts.starts) + 1) - 1).any():
            raise _unaligned()
        places = before[:-1] + np.repeat(texts.begins - first[:-1], np.diff(offsets))
        return begun, places[begun]

    def _by_units(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> Begun:
        """The first tokens of units, which pieces never cross, say so; but `##` may also be what a unit begins with."""
        begun, units = self._whole[ids], np.flatnonzero(texts.cuts)
        bounds = np.searchsorted(units, np.append(texts.begins, len(texts.starts)))
        found = np.diff(np.concatenate([[0], np.cumsum(begun)])[offsets])
        for number in np.flatnonzero(found != np.diff(bounds)):
            cuts = units[bounds[number] : bounds[number + 1]] - texts.begins[number]
            tokens = slice(offsets[number], offsets[number + 1])
            if len(one := self._one_by_one(texts.texts[number], cuts)) != len(ids[tokens]):
                raise _unaligned()
            begun[tokens] = one
        if np.count_nonzero(begun) != len(units):
            raise _unaligned()
        return begun, units

    def _one_by_one(self, text: str, cuts: Integers) -> npt.NDArray[np.bool_]:
        """Which of a text's tokens are first ones: found by encoding each unit for itself."""
        plain = text.translate(UNMARK)
        units = [plain[start:end] + WORD for start, end in pairwise([*cuts.tolist(), len(plain)])]
        ids, offsets = self._tokenizer.encode_batch(units, normalized=True)
        begun = np.zeros(len(ids), bool)
        begun[offsets[:-1]] = True
        return begun

    def _joined(self, texts: MarkedTexts, ids: Ids, marks: Marks, offsets: Integers) -> EncodedDocuments:
        """Put newlines between a document's texts, and the end behind the last of them."""
        count = len(texts.texts)
        separators = offsets[1:] + np.arange(count)
        is_text = np.ones(len(ids) + count, bool)
        is_text[separators] = False
        tokens = np.empty(len(is_text), stored_dtype(self.dtype))
        tokens[is_text], tokens[separators] = ids, self.newline if self.newline >= 0 else self.end
        ends = separators[texts.documents[1:] - 1]
        tokens[ends] = self.end
        all_marks = np.zeros(len(tokens), np.uint8)
        all_marks[is_text] = marks
        return EncodedDocuments(tokens, all_marks, np.diff(ends, prepend=-1), texts.size)


def end_of_document_id(tokenizer: Tokenizer) -> int:
    """The id that ends a document.

    Raises:
        ConfigError: the tokenizer has no token for it.
    """
    special = tokenizer.special
    if token := special.eos or special.sep:
        return tokenizer.id_of(token)
    fix = "train it with --special roberta, bert, gpt or t5"
    raise ConfigError("this tokenizer has no token that could end a document", where=str(tokenizer.folder), fix=fix)


def _newline(tokenizer: Tokenizer) -> int:
    """The newline's id. A vocabulary without one has the unknown token for it."""
    if tokenizer.card.config.newline == "space":
        return -1
    newline = tokenizer.newline_id
    return tokenizer.id_of(tokenizer.special.unk) if newline is None else newline


def _unaligned() -> JprepError:
    return JprepError("a tokenizer's tokens do not stand for the text's characters", fix="please report it")
