"""A vocabulary: every id with its piece, in order. What learners make, and what exports write."""

from __future__ import annotations

from typing import Literal

import msgspec

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SpecialTokens

SPACE = "▁"
"""U+2581 stands for a space in pieces of characters. Text that holds it comes back with a space in its place."""

NEWLINE = "␤"
"""U+2424 stands for a newline in WordPiece, which has no bytes to fall back on."""

CONTINUATION_PREFIX = "##"
"""Begins WordPiece's pieces that continue a word, under hard boundaries."""

DOUBLE_HASH = "#(?=#)"
"""Where WordPiece splits text (a regular expression), so that `##` in text is not read as `CONTINUATION_PREFIX`."""

PieceKind = Literal["normal", "byte", "special", "unknown"]


class VocabularyPiece(msgspec.Struct, frozen=True):
    """One id.

    Attributes:
        text: as the exported files spell it: with `▁` for a space, `<0x0A>` for a byte; byte-bpe in GPT-2's characters.
        kind: `unknown` is the special token for what has no piece.
        score: Unigram's log probability, BPE's rank below zero; 0 for the others.
    """

    text: str
    kind: PieceKind = "normal"
    score: float = 0.0


class Vocabulary(msgspec.Struct, frozen=True):
    """A tokenizer but for its normaliser.

    Attributes:
        config: what was asked for.
        special: its special tokens.
        pieces: by id.
        merges: byte-bpe's merges in order, one for each learnt piece; empty for the other kinds.
        alphabet: the characters (byte-bpe: none) that have a piece of their own, most frequent first.
        counts: what was counted while learning, by dotted name.
    """

    config: TokenizerConfig
    special: SpecialTokens
    pieces: list[VocabularyPiece]
    merges: list[tuple[str, str]]
    alphabet: str
    counts: dict[str, int]
