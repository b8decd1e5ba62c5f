"""The pieces of a `tokenizer.json`, and the bytes that they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, NEWLINE, SPACE

_BYTE = re.compile("<0x([0-9A-F]{2})>")


def read_pieces(model: Mapping[str, Any]) -> list[str]:
    """The pieces by id of the `model` part of a `tokenizer.json`."""
    vocab = model["vocab"]
    return [piece for piece, _ in vocab] if isinstance(vocab, list) else sorted(vocab, key=vocab.__getitem__)


def piece_bytes(pieces: Sequence[str], config: TokenizerConfig, special: SpecialTokens) -> list[bytes]:
    """What each id stands for: UTF-8, or a part of it; special tokens spell themselves.

    Args:
        pieces: by id, as `tokenizer.json` spells them.
        config: the tokenizer's.
        special: its special tokens.
    """
    written = {"byte-bpe": _of_bytes, "wordpiece": _of_wordpiece}.get(config.model, _of_characters)
    spelling_themselves = set(special.tokens)
    return [piece.encode() if piece in spelling_themselves else written(piece, config) for piece in pieces]


def _of_bytes(piece: str, config: TokenizerConfig) -> bytes:
    return bytes(CHARACTER_TO_BYTE[character] for character in piece)


def _of_characters(piece: str, config: TokenizerConfig) -> bytes:
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()


def _of_wordpiece(piece: str, config: TokenizerConfig) -> bytes:
    if config.boundaries == "hard":
        piece = piece.removeprefix(CONTINUATION_PREFIX)
    return piece.replace(SPACE, " ").replace(NEWLINE, "\n").encode()
