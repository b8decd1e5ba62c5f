"""Width of text in columns of a terminal, where East Asian characters take two."""

from __future__ import annotations

import unicodedata

_WIDE = ("W", "F")


def is_wide(character: str) -> bool:
    """Return whether a character takes a full square."""
    return unicodedata.east_asian_width(character) in _WIDE


def display_width(text: str) -> int:
    """Return how many columns a text takes; combining marks take none."""
    return sum(1 + is_wide(character) for character in text if not unicodedata.combining(character))


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with spaces after it up to a number of columns; before it if it is aligned right."""
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces
