"""Encode documents in batches, and mark the tokens that begin a word or a sentence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import UNMARK, WORD
from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.indexed.split import dtype_of, stored_dtype
from jprep.dataset.preprocessing.marked_text import Integers, MarkedTexts, parse_documents
from jprep.dataset.preprocessing.span_marks import span_marks
from jprep.errors import ConfigError, JprepError
from jprep.tokenizer.formats.pieces import piece_bytes
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX
from jprep.tokenizer.word_spaces import separate_words

Ids = npt.NDArray[np.int32]
TokenStarts = tuple[npt.NDArray[np.bool_], Integers]
"""Which tokens begin with the first byte of a character, and the positions of those characters among all."""


_BATCH_SIZE = 4096  # texts per call of the tokenizer


class EncodedDocuments(NamedTuple):
    """A batch of encoded documents.

    Attributes:
        tokens: all tokens, each document with its end-of-document token; uint16 or int32, (tokens,).
        marks: uint8, (tokens,).
        lengths: tokens per document, int64, (documents,).
        size: UTF-8 bytes of each document's text, int64, (documents,).
    """

    tokens: npt.NDArray[Any]
    marks: Marks
    lengths: Integers
    size: Integers


class DocumentEncoder:
    """Encode documents paragraph by paragraph, and find the tokens at which words and sentences start.

    Args:
        tokenizer: a finished tokenizer.

    Attributes:
        end: id of the end-of-document token.
        newline: id between two paragraphs; -1 if the tokenizer replaces newlines by spaces.
        dtype: type of a token.

    Raises:
        ConfigError: the tokenizer has no token that could end a document.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._config = tokenizer, tokenizer.card.config
        self.dtype = dtype_of(tokenizer.vocab_size)
        self.end, self.newline = end_of_document_id(tokenizer), _newline(tokenizer)
        self._spans = tokenizer.encode_with_spans if tokenizer.has_spans else None
        if self._spans:  # tells itself where its tokens are
            return
        pieces = [tokenizer.piece_of(number) for number in range(tokenizer.vocab_size)]
        self._by_unit = self._config.boundaries == "hard" and self._config.model == "wordpiece"
        if self._by_unit:  # the unknown token covers a whole unit of any length
            self._begins_character = np.array([not piece.startswith(CONTINUATION_PREFIX) for piece in pieces])
        else:  # a piece may begin inside a character
            spelt = piece_bytes(pieces, self._config, tokenizer.special)
            self._begins_character = np.array([piece[:1] < b"\x80" or piece[:1] >= b"\xc0" for piece in spelt])

    def encode(self, documents: list[bytes]) -> EncodedDocuments:
        """Encode documents.

        Args:
            documents: their `words`, UTF-8; at least starts_unit.

        Raises:
            JprepError: the tokens do not cover each character of the text exactly once.
        """
        if self._config.boundaries == "spaces":
            documents = [separate_words(document.decode()).encode() for document in documents]
        texts = parse_documents(documents, self._config)
        if self._spans:
            found = self._spans(texts.texts)
            return self._join(texts, found.ids, span_marks(texts, found), found.offsets)
        ids, offsets = self._ids(texts.texts)
        begins, places = (self._by_units if self._by_unit else self._by_characters)(texts, ids, offsets)
        marks = np.zeros(len(ids), np.uint8)
        marks[begins] = texts.starts[places]
        return self._join(texts, ids, marks, offsets)

    def _ids(self, texts: list[str]) -> tuple[Ids, Integers]:
        """Return the ids and offsets of all texts. Texts are encoded in batches to bound memory."""
        batches = range(0, len(texts), _BATCH_SIZE)
        parts = [self._tokenizer.encode_batch(texts[at : at + _BATCH_SIZE], normalized=True) for at in batches]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(lengths)])

    def _by_characters(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> TokenStarts:
        """Find the first character of each token from the number of characters that each id covers."""
        before, begins = np.zeros(len(ids) + 1, np.int64), self._begins_character[ids]
        np.cumsum(self._tokenizer.characters[ids], out=before[1:])
        first = before[offsets]
        if (np.diff(first) != np.diff(texts.begins, append=len(texts.starts) + 1) - 1).any():
            raise _unaligned()
        places = before[:-1] + np.repeat(texts.begins - first[:-1], np.diff(offsets))
        return begins, places[begins]

    def _by_units(self, texts: MarkedTexts, ids: Ids, offsets: Integers) -> TokenStarts:
        """Find the first token of each unit from the pieces without a `##` prefix.

        Where their number differs from the number of units, a unit itself begins with `##`; that text is encoded unit
        by unit.
        """
        begins, units = self._begins_character[ids], np.flatnonzero(texts.cuts)
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

    def _join(self, texts: MarkedTexts, ids: Ids, marks: Marks, offsets: Integers) -> EncodedDocuments:
        """Insert a newline between a document's texts and the end-of-document token after the last."""
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
    """Return the id of the token that ends a document.

    Raises:
        ConfigError: the tokenizer has no such token.
    """
    special = tokenizer.special
    if token := special.eos or special.sep:
        return tokenizer.id_of(token)
    fix = "train it with --special roberta, bert, gpt or t5"
    if tokenizer.card.external:
        fix = "state its eos_token or sep_token in tokenizer_config.json"
    raise ConfigError("this tokenizer has no token that could end a document", where=str(tokenizer.folder), fix=fix)


def _newline(tokenizer: Tokenizer) -> int:
    """Return the id of a newline: the unknown token's if the vocabulary has no newline."""
    newline = tokenizer.newline_id
    if tokenizer.card.external:
        return -1 if newline is None else newline
    if tokenizer.card.config.newline == "space":
        return -1
    return tokenizer.id_of(tokenizer.special.unk) if newline is None else newline


def _unaligned() -> JprepError:
    return JprepError("the tokens do not cover the characters of the text", fix="please report this bug")
