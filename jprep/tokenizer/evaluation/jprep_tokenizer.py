"""Adapter for jprep's own tokenizers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.document import WORD
from jprep.errors import JprepError
from jprep.tokenizer.encoding.batch import EncodedBatch as Ids
from jprep.tokenizer.encoding.batch import TokenSpans, cumulative_offsets
from jprep.tokenizer.encoding.word_encoder import WordEncoder
from jprep.tokenizer.evaluation.adapter import (
    Integers,
    TokenizerAdapter,
    continuation_ids,
    partial_character_ids,
    piece_spelling,
    text_offsets,
)
from jprep.tokenizer.vocabulary import SPACE_PIECE

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


class JprepAdapter(TokenizerAdapter):
    """A tokenizer of jprep.

    Token positions are computed from the number of characters that each id covers, which costs little compared with
    encoding.

    Args:
        tokenizer: as returned by `load_tokenizer`.
        name: display name; by default the card's name.
    """

    def __init__(self, tokenizer: Tokenizer, name: str = "") -> None:
        card = tokenizer.card
        self._tokenizer = tokenizer
        self.name, self.identity, self.model = name or card.name, card.fingerprint[:12], card.config.model
        self.traits = {"boundaries": card.config.boundaries}
        self.size = tokenizer.vocab_size
        self.unknown = -1 if tokenizer.unk is None else tokenizer.unk
        self.marked = card.config.boundaries == "hard"
        self.spaced = card.config.boundaries == "spaces"
        self.normalizers = [_as_reference(step) for step in card.normalizers]
        self.splitter = _as_reference(card.splitter) if card.splitter else None
        self.segmenter = _as_reference(card.segmenter) if self.marked and card.segmenter else None
        self._read_pieces()

    def _read_pieces(self) -> None:
        special = set(self._tokenizer.special.tokens)
        pieces = map(self._tokenizer.piece_of, range(self.size))
        vocabulary = {piece: number for number, piece in enumerate(pieces) if piece not in special}
        byte_level = self.model == "byte-bpe"
        self.parts = partial_character_ids(vocabulary, self.size, byte_level=byte_level)
        self._inside = continuation_ids(vocabulary, self.size, byte_level=byte_level)
        self._characters = np.asarray(self._tokenizer.characters, np.int64)

    def encode(self, texts: Sequence[str]) -> TokenSpans:
        """See `TokenizerAdapter`.

        Raises:
            JprepError: the tokens do not cover the texts.
        """
        if self._tokenizer.card.config.whole_words:
            return self._tokenizer.encode_with_spans(texts)
        ids, offsets = self._tokenizer.encode_batch(self._with_marks(texts), normalized=True)
        bases = text_offsets([text.replace(WORD, "") for text in texts])
        by_words = self.marked and self.model == "wordpiece"
        lengths = self._word_token_lengths(ids, offsets, texts, bases) if by_words else self._characters[ids]
        ends = cumulative_offsets(lengths)
        if not np.array_equal(ends[offsets], bases):
            fix = "please report this bug with the text"
            raise JprepError("the tokens do not cover the text", where=self.name, fix=fix)
        shift = np.repeat(bases[:-1], np.diff(offsets))
        # Readers expect a token that begins inside a character to begin with that character.
        return TokenSpans(ids, offsets, ends[:-1] - self._inside[ids] - shift, ends[1:] - shift)

    def _with_marks(self, texts: Sequence[str]) -> list[str]:
        """Add a mark to texts of one word, which would count as raw text without one."""
        return [text if WORD in text else text + WORD for text in texts] if self.marked else list(texts)

    def _word_token_lengths(self, ids: Any, offsets: Integers, texts: Sequence[str], bases: Integers) -> Integers:
        """Return the lengths of WordPiece's tokens under hard boundaries.

        They depend on whether a word begins at the token: the unknown token covers a whole word, and `##` at the
        beginning of a word covers itself.
        """
        lengths: Integers = self._characters[ids]
        added = cumulative_offsets(lengths)[offsets]
        for number in np.flatnonzero(np.diff(added) != np.diff(bases)).tolist():
            ends = self._unit_ends(texts[number])
            at, begins = 0, {0, *ends}
            for token in range(offsets[number], offsets[number + 1]):
                if ids[token] == self.unknown:
                    lengths[token] = ends[bisect_right(ends, at)] - at
                elif at in begins:
                    lengths[token] = len(self._tokenizer.piece_of(int(ids[token])))
                at += int(lengths[token])
        return lengths

    def _unit_ends(self, text: str) -> list[int]:
        """Return the ends of the units of a marked text: words, with preceding spaces as the tokenizer joins them."""
        units = WordEncoder(_lengths, self._tokenizer.card.config, SPACE_PIECE)([text])
        ends: list[int] = cumulative_offsets(units.ids)[1:].tolist()
        return ends

    def decode(self, encoded: TokenSpans) -> list[str]:
        """See `TokenizerAdapter`."""
        return self._tokenizer.decode_batch(encoded.ids, encoded.offsets)

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._tokenizer.encode_batch(self._with_marks(texts), normalized=True)

    def spellings(self) -> list[str]:
        """See `TokenizerAdapter`."""
        decoded = self._tokenizer.decode_batch(np.arange(self.size, dtype=np.int32), np.arange(self.size + 1))
        byte_level = self.model == "byte-bpe"
        return [
            piece_spelling(self._tokenizer.piece_of(number), byte_level=byte_level) if self.parts[number] else text
            for number, text in enumerate(decoded)
        ]


def _as_reference(description: dict[str, Any]) -> dict[str, Any]:
    """Convert a card's description of a step to a reference as in a recipe."""
    return {"use": description["name"], **description["config"]}


def _lengths(units: Sequence[str]) -> Ids:
    """Encode each unit as one token, its length."""
    return Ids(np.fromiter(map(len, units), np.int32, len(units)), np.arange(len(units) + 1))
