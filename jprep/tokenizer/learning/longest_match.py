"""WordPiece's longest match from the left, with pieces that are not in a vocabulary yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jprep.tokenizer.vocabulary import SPACE_PIECE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UNKNOWN_IDS = 4  # the first ids are characters outside the alphabet, by their UTF-8 bytes minus one


class LongestMatch:
    """Encode with candidate WordPiece pieces.

    Args:
        alphabet: characters with a piece of their own.
    """

    def __init__(self, alphabet: str) -> None:
        self._alphabet = [self.spell(character) for character in alphabet]

    def spell(self, text: str) -> str:
        """Convert text to the characters of pieces; newlines are unchanged."""
        return text.replace(" ", SPACE_PIECE)

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """Return the UTF-8 bytes of each id's text."""
        texts = [piece.replace(SPACE_PIECE, " ") for piece in [*self._alphabet, *pieces]]
        return [*range(1, _UNKNOWN_IDS + 1), *(len(text.encode()) for text in texts)]

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode converted texts."""
        import numpy as np

        ids = {piece: number for number, piece in enumerate([*self._alphabet, *pieces], _UNKNOWN_IDS)}
        lengths: dict[str, set[int]] = {}
        for piece in pieces:
            lengths.setdefault(piece[:2], set()).add(len(piece))
        lengths_by_start = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        return [np.fromiter(_matches(text, ids, lengths_by_start), np.int32) for text in texts]


def _matches(text: str, ids: dict[str, int], lengths_by_start: dict[str, list[int]]) -> Iterator[int]:
    """Yield the ids of a text. `lengths_by_start` maps two first characters to the lengths of pieces, descending."""
    at, end = 0, len(text)
    while at < end:
        for length in lengths_by_start.get(text[at : at + 2], ()):
            if (found := ids.get(text[at : at + length])) is not None:
                yield found
                at += length
                break
        else:
            character = text[at]
            yield ids[character] if character in ids else len(character.encode()) - 1
            at += 1
