"""Read the pieces of a `tokenizer.json`, and convert them to bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, NEWLINE_PIECE, SPACE_PIECE

_BYTE = re.compile("<0x([0-9A-F]{2})>")


def read_pieces(model: Mapping[str, Any]) -> list[str]:
    """Return the pieces by id of the `model` component of a `tokenizer.json`."""
    vocab = model["vocab"]
    return [piece for piece, _ in vocab] if isinstance(vocab, list) else sorted(vocab, key=vocab.__getitem__)


def piece_bytes(pieces: Sequence[str], config: TokenizerConfig, special: SpecialTokens) -> list[bytes]:
    """Return the UTF-8 bytes of each id, which may be incomplete characters; special tokens stand for themselves.

    Where tokens are whole words, each that begins one has a space in front.

    Args:
        pieces: pieces by id, as in `tokenizer.json`.
        config: the tokenizer's config.
        special: its special tokens.
    """
    if config.whole_words:
        return [_of_words(piece, config) for piece in pieces]
    convert = {"byte-bpe": _of_bytes, "wordpiece": _of_wordpiece}.get(config.model, _of_characters)
    special_tokens = set(special.tokens)
    return [piece.encode() if piece in special_tokens else convert(piece, config) for piece in pieces]


def _of_words(piece: str, config: TokenizerConfig) -> bytes:
    continues = config.boundaries == "bert" and piece.startswith(CONTINUATION_PREFIX)
    return (piece.removeprefix(CONTINUATION_PREFIX) if continues else f" {piece}").encode()


def _of_bytes(piece: str, config: TokenizerConfig) -> bytes:
    return bytes(CHARACTER_TO_BYTE[character] for character in piece)


def _of_characters(piece: str, config: TokenizerConfig) -> bytes:
    return fallback_byte(piece) or piece.replace(SPACE_PIECE, " ").encode()


def fallback_byte(piece: str) -> bytes:
    """Return the byte that a piece of byte fallback such as `<0x41>` stands for; nothing for any other piece."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else b""


def _of_wordpiece(piece: str, config: TokenizerConfig) -> bytes:
    if config.boundaries == "hard":
        piece = piece.removeprefix(CONTINUATION_PREFIX)
    return piece.replace(SPACE_PIECE, " ").replace(NEWLINE_PIECE, "\n").encode()
