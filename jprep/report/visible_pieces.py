"""Pieces of text with visible spaces."""

from __future__ import annotations

import unicodedata

_PIECE = 40  # characters of a piece that are shown
_VISIBLE = str.maketrans({" ": "␣", "\u3000": "□", "\n": "↵", "\t": "⇥"})


def shown_piece(text: str) -> str:
    """Return a piece with visible spaces, line breaks and invisible characters, shortened."""
    shown = text[:_PIECE].translate(_VISIBLE)
    named = "".join(f"\\u{ord(one):04x}" if unicodedata.category(one) == "Cf" else one for one in shown)
    return f"{named}… ({len(text) - _PIECE:,} more characters)" if len(text) > _PIECE else named
