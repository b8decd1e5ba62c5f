"""Find the characters that tokens cover, for tokenizers that do not tell: match their spellings to the text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_PREFIXES = ("##", "▁", "Ġ")
_ENDINGS = ("</w>",)
_SPACES = frozenset("▁Ġ")

_BLANK = " "
"""The spelling of a token that is white space only, such as the `▁` before a first word."""


def surface(piece: str) -> str:
    """Return the characters that a token spells, without the marks of its tokenizer, folded as by `align`."""
    if piece and _SPACES.issuperset(piece):
        return _BLANK
    for prefix in _PREFIXES:
        if len(piece) > len(prefix):
            piece = piece.removeprefix(prefix)
    for ending in _ENDINGS:
        piece = piece.removesuffix(ending)
    return "".join(_fold(character) for character in piece).replace("▁", "")


def align(text: str, surfaces: Sequence[str]) -> list[tuple[int, int]]:
    """Return the start and the end in a text of each token.

    Both are compared without case, accents, compatibility forms and white space. A token that is not found at its
    place, such as the unknown token, covers the text up to the next one that is found. White space that is a token of
    its own has the place of the token after it, as in the library tokenizers: it belongs to that word.

    Args:
        text: the text.
        surfaces: the tokens' spellings, from `surface`; "" for the unknown token.
    """
    visible = iter(_align(text, [spelt for spelt in surfaces if spelt != _BLANK]))
    found = [None if spelt == _BLANK else next(visible) for spelt in surfaces]
    spans: list[tuple[int, int]] = []
    following = (len(text), len(text))
    for span in reversed(found):
        following = span or following
        spans.append(following)
    return spans[::-1]


def _align(text: str, surfaces: Sequence[str]) -> list[tuple[int, int]]:
    folded, places = _folded(text)
    spans: list[tuple[int, int]] = []
    at, pending = 0, 0  # position in `folded`; tokens since the last one that was found
    for spelt in surfaces:
        found = folded.find(spelt, at) if spelt else -1
        if found >= 0 and (pending or found == at):
            _close(spans, pending, places[found])
            at, pending = found + len(spelt), 0
            spans.append((places[found], places[at - 1] + 1))
        else:
            spans.append((places[at], places[at]))
            pending += 1
    _close(spans, pending, len(text))
    return spans


def _close(spans: list[tuple[int, int]], pending: int, end: int) -> None:
    """Let the first of the tokens without a place cover the text up to the next, and the others nothing."""
    if pending:
        first = spans[-pending][0]
        spans[-pending:] = [(first, max(first, end)), *([(max(first, end), max(first, end))] * (pending - 1))]


def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text without case, accents and white space, and the place of each of its characters; the end last."""
    parts, places = [], []
    for place, character in enumerate(text):
        for each in _fold(character):
            parts.append(each)
            places.append(place)
    return "".join(parts), [*places, len(text)]


def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", character).casefold())
    return "".join(each for each in plain if unicodedata.category(each) != "Mn" and not each.isspace())
