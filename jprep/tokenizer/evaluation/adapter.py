"""What an evaluation asks of a tokenizer, whoever made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jprep.tokenizer.batch_encoding import cumulative_offsets
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE

Integers = NDArray[np.int64]


class EncodingWithOffsets(NamedTuple):
    """A batch of texts as tokens.

    Attributes:
        ids: of all texts, one after another, shape [tokens].
        offsets: text i has `ids[offsets[i]:offsets[i + 1]]`, shape [texts + 1].
        starts: the character of its text that a token begins with or in, shape [tokens].
        ends: the character of its text behind the last one that a token holds a part of, shape [tokens].
    """

    ids: NDArray[Any]
    offsets: Integers
    starts: Integers
    ends: Integers


class TokenizerAdapter(ABC):
    """A tokenizer.

    Attributes:
        name: for people.
        identity: what tells it from others of that name: a fingerprint or a hash, shortened.
        model: its kind, e.g. `bpe`.
        traits: what else its figures depend on, for the signature.
        size: ids in its vocabulary.
        unknown: the id that stands for what it has no piece for, -1 where there is none.
        parts: whether an id stands for a part of a character, shape [size].
        marked: it takes text with U+001F between words.
        normalizers: what raw text must go through before it, as steps of a recipe.
        splitter: what finds sentences in raw text where `marked`, as a step of a recipe; else None.
        segmenter: in the same way, what finds words.
    """

    name: str
    identity: str
    model: str
    traits: Mapping[str, str] = {}
    size: int
    unknown: int = -1
    parts: NDArray[np.bool_]
    marked: bool = False
    normalizers: Sequence[dict[str, Any]] = ()
    splitter: dict[str, Any] | None = None
    segmenter: dict[str, Any] | None = None

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> EncodingWithOffsets:
        """Tokens of some normalised texts (with word marks where `marked`), and where they stand without the marks."""

    @abstractmethod
    def decode(self, encoded: EncodingWithOffsets) -> list[str]:
        """The texts that tokens stand for."""

    @abstractmethod
    def encode_only(self, texts: Sequence[str]) -> None:
        """Encode, and no more: what is timed, in CPU-seconds of all threads."""


def partial_character_ids(vocabulary: Mapping[str, int], size: int, *, byte_level: bool) -> NDArray[np.bool_]:
    """Which ids stand for a part of a character: `<0x..>`, or bytes that are not whole characters of UTF-8.

    Args:
        vocabulary: piece → id.
        size: ids in all.
        byte_level: the pieces are spelt in GPT-2's characters, one a byte.
    """
    parts = np.zeros(size, bool)
    parts[[i for piece, i in vocabulary.items() if (_broken(piece) if byte_level else _is_byte(piece))]] = True
    return parts


def continuation_ids(vocabulary: Mapping[str, int], size: int, *, byte_level: bool) -> NDArray[np.bool_]:
    """Which ids begin inside a character: with one of the bytes 0x80–0xBF. Arguments as of `partial_character_ids`."""
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
    """Where each of some texts begins when they are joined, and where the last one ends, in characters."""
    return cumulative_offsets(map(len, texts))
