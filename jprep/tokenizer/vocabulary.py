"""A vocabulary: every id with its piece, in order. Trainers create it, exports write it."""

from __future__ import annotations

from typing import Literal

import msgspec

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SpecialTokens

SPACE_PIECE = "▁"
"""U+2581 represents a space in pieces of characters. Text that contains it decodes with a space in its place."""

NEWLINE_PIECE = "␤"
"""U+2424 represents a newline in WordPiece, which has no byte fallback."""

CONTINUATION_PREFIX = "##"
"""Prefix of WordPiece pieces that continue a word, under hard boundaries."""

DOUBLE_HASH = "#(?=#)"
"""Regular expression at which such WordPiece cuts text, so that `##` in text is not taken for the prefix."""

PieceKind = Literal["normal", "byte", "special", "unknown"]


class VocabularyPiece(msgspec.Struct, frozen=True):
    """The piece of one id.

    Attributes:
        text: as in exported files: `▁` for a space, `<0x0A>` for a byte; byte-bpe in GPT-2's characters.
        kind: `unknown` is the special token for text without a piece.
        score: Unigram's log probability, or BPE's negative rank; 0 for other model types.
    """

    text: str
    kind: PieceKind = "normal"
    score: float = 0.0


class Vocabulary(msgspec.Struct, frozen=True):
    """A tokenizer without its normalizer.

    Attributes:
        config: the requested configuration.
        special: special tokens.
        pieces: pieces by id.
        merges: byte-bpe's merges in order: one for each learnt piece, and those of required pieces; empty for other
            model types.
        alphabet: characters with a piece of their own (byte-bpe: none), most frequent first.
        counts: counters of the training, by dotted name.
    """

    config: TokenizerConfig
    special: SpecialTokens
    pieces: list[VocabularyPiece]
    merges: list[tuple[str, str]]
    alphabet: str
    counts: dict[str, int]
