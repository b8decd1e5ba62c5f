"""Pieces of text with visible spaces."""

from __future__ import annotations

from jprep.html.text import shortened

_PIECE = 40  # characters of a piece that are shown
_VISIBLE = str.maketrans({" ": "␣", "\u3000": "□", "\n": "↵", "\t": "⇥"})


def shown_piece(text: str) -> str:
    """Return a piece with visible spaces and line breaks, shortened."""
    return shortened(text.translate(_VISIBLE), _PIECE)
