"""Longest match from the left, as WordPiece does it, with pieces that are not a vocabulary yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jprep.tokenizer.vocabulary import SPACE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STRANGERS = 4  # the first ids: of characters outside the alphabet, by how many bytes of UTF-8 they have less one


class LongestMatch:
    """Encodes with pieces of WordPiece.

    Args:
        alphabet: characters that have a piece of their own.
    """

    def __init__(self, alphabet: str) -> None:
        self._alphabet = [self.spell(character) for character in alphabet]

    def spell(self, text: str) -> str:
        """Text as pieces spell it, except that a newline stays."""
        return text.replace(" ", SPACE)

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """UTF-8 bytes of each id's text."""
        texts = [piece.replace(SPACE, " ") for piece in [*self._alphabet, *pieces]]
        return [*range(1, _STRANGERS + 1), *(len(text.encode()) for text in texts)]

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode texts that are spelt."""
        import numpy as np

        ids = {piece: number for number, piece in enumerate([*self._alphabet, *pieces], _STRANGERS)}
        lengths: dict[str, set[int]] = {}
        for piece in pieces:
            lengths.setdefault(piece[:2], set()).add(len(piece))
        tried = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        return [np.fromiter(_matches(text, ids, tried), np.int32) for text in texts]


def _matches(text: str, ids: dict[str, int], tried: dict[str, list[int]]) -> Iterator[int]:
    """The ids of a text; `tried` gives the lengths of pieces that begin with two characters, falling."""
    at, end = 0, len(text)
    while at < end:
        for length in tried.get(text[at : at + 2], ()):
            if (found := ids.get(text[at : at + length])) is not None:
                yield found
                at += length
                break
        else:
            character = text[at]
            yield ids[character] if character in ids else len(character.encode()) - 1
            at += 1
