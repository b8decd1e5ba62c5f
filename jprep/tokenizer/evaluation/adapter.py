"""The interface of a tokenizer in an evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jprep.tokenizer.encoding.batch import TokenSpans, cumulative_offsets
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE
from jprep.tokenizer.vocabulary import SPACE_PIECE

Integers = NDArray[np.int64]


class TokenizerAdapter(ABC):
    """A tokenizer to evaluate.

    Attributes:
        name: display name.
        identity: shortened fingerprint or hash, which distinguishes tokenizers of the same name.
        model: model type, e.g. `bpe`.
        traits: other properties that the scores depend on, for the signature.
        size: number of ids.
        unknown: id of the unknown token, -1 if there is none.
        parts: whether an id stands for a part of a character, shape [size].
        marked: whether it expects text with U+001F between words.
        spaced: whether it expects text with spaces between words.
        normalizers: steps of a recipe to apply to raw text first.
        splitter: if `marked`, the step of a recipe that splits raw text into sentences; else None.
        segmenter: if `marked`, the step of a recipe that segments raw text; else None.
    """

    name: str
    identity: str
    model: str
    traits: Mapping[str, str] = {}
    size: int
    unknown: int = -1
    parts: NDArray[np.bool_]
    marked: bool = False
    spaced: bool = False
    normalizers: Sequence[dict[str, Any]] = ()
    splitter: dict[str, Any] | None = None
    segmenter: dict[str, Any] | None = None

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> TokenSpans:
        """Return tokens of normalized texts (with word marks if `marked`), with positions in the unmarked texts."""

    @abstractmethod
    def decode(self, encoded: TokenSpans) -> list[str]:
        """Return the texts of encoded tokens."""

    @abstractmethod
    def encode_only(self, texts: Sequence[str]) -> None:
        """Encode without computing positions; this is timed, in CPU seconds of all threads."""

    def spellings(self) -> list[str]:
        """Return the text of each id, to show it, [size]: bytes that are no character as `<0x..>`.

        Raises:
            NotImplementedError: this kind of tokenizer does not list its pieces.
        """
        raise NotImplementedError


def piece_spelling(piece: str, *, byte_level: bool) -> str:
    """Return the text of a piece of a `tokenizer.json` or a sentencepiece model, to show it.

    Args:
        piece: the piece.
        byte_level: whether it is spelt in GPT-2's characters, one per byte.
    """
    if not byte_level:
        return piece.replace(SPACE_PIECE, " ")
    if any(character not in CHARACTER_TO_BYTE for character in piece):  # a special token
        return piece
    data = bytes(CHARACTER_TO_BYTE[character] for character in piece)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in data)


def partial_character_ids(vocabulary: Mapping[str, int], size: int, *, byte_level: bool) -> NDArray[np.bool_]:
    """Return which ids stand for a part of a character: `<0x..>`, or bytes that are not whole UTF-8 characters.

    Args:
        vocabulary: piece → id.
        size: number of ids.
        byte_level: whether pieces are spelt in GPT-2's characters, one per byte.
    """
    parts = np.zeros(size, bool)
    parts[[i for piece, i in vocabulary.items() if (_broken(piece) if byte_level else _is_byte(piece))]] = True
    return parts


def continuation_ids(vocabulary: Mapping[str, int], size: int, *, byte_level: bool) -> NDArray[np.bool_]:
    """Return which ids begin inside a character (bytes 0x80 to 0xBF). Arguments as of `partial_character_ids`."""
    inside = np.zeros(size, bool)
    inside[[i for piece, i in vocabulary.items() if 0x80 <= _first_byte(piece, byte_level) < 0xC0]] = True
    return inside


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def _first_byte(piece: str, byte_level: bool) -> int:
    if byte_level:
        return CHARACTER_TO_BYTE.get(piece[:1], -1)
    return int(piece[3:5], 16) if _is_byte(piece) else -1


def _broken(piece: str) -> bool:
    try:
        bytes(CHARACTER_TO_BYTE[character] for character in piece).decode()
    except KeyError:  # a special token
        return False
    except UnicodeDecodeError:
        return True
    return False


def text_offsets(texts: Iterable[str]) -> Integers:
    """Return the start of each text after concatenation, and the end of the last one, in characters."""
    return cumulative_offsets(map(len, texts))
