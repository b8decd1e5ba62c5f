"""Text from outside, such as titles and file names, prepared for HTML."""

from __future__ import annotations

import html as html_parser

from jprep.io.escaping import escaped


def visible(text: str) -> str:
    r"""Return text with control characters and direction marks as escapes (`\x1b`, `\u202e`). It is not HTML yet."""
    return escaped(text)


def html(text: object) -> str:
    """Return a value as HTML that shows it as text, in elements and in quoted attributes."""
    return html_parser.escape(visible(str(text)))


def shortened(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, and the number of those left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"
