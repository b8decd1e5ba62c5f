"""Encode documents in batches, and mark the tokens that begin a word or a sentence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.indexed.split import dtype_of, stored_dtype
from jprep.dataset.preprocessing.marked_text import Integers, MarkedTexts, parse_documents
from jprep.dataset.preprocessing.marking_encoders import MarkedTokens, marking_encoder
from jprep.errors import ConfigError
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.word_spaces import separate_words


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
        ConfigError: the tokenizer has no end-of-document token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._config = tokenizer.card.config
        self.dtype = dtype_of(tokenizer.vocab_size)
        self.end, self.newline = end_of_document_id(tokenizer), _newline(tokenizer)
        self._encoder = marking_encoder(tokenizer)

    def encode(self, documents: list[bytes]) -> EncodedDocuments:
        """Encode documents.

        Args:
            documents: their `words`, UTF-8; at least one.

        Raises:
            JprepError: the tokens do not cover each character of the text exactly once.
        """
        if self._config.boundaries == "spaces":
            documents = [separate_words(document.decode()).encode() for document in documents]
        texts = parse_documents(documents, self._config)
        return self._join(texts, self._encoder.encode(texts))

    def _join(self, texts: MarkedTexts, encoded: MarkedTokens) -> EncodedDocuments:
        """Insert a newline between a document's texts and the end-of-document token after the last."""
        (ids, marks, offsets), count = encoded, len(texts.texts)
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
    raise ConfigError("this tokenizer has no end-of-document token (eos or sep)", where=str(tokenizer.folder), fix=fix)


def _newline(tokenizer: Tokenizer) -> int:
    """Return the id of a newline: the unknown token's if the vocabulary has no newline."""
    newline = tokenizer.newline_id
    if tokenizer.card.external:
        return -1 if newline is None else newline
    if tokenizer.card.config.newline == "space":
        return -1
    return tokenizer.id_of(tokenizer.special.unk) if newline is None else newline
