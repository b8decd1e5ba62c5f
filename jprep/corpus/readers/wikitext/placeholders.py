"""Control characters used as placeholders during extraction. Neither input nor output contains them."""

from __future__ import annotations

DROPPED = "\x01"
"""Marks the position of dropped mark-up."""

LOST = "\x0f"
"""Marks the position of a template or parser function whose text is unknown. Other places treat it like `DROPPED`."""

PLACE = "\x07"
"""Marks the position of coordinates, up to the end of nesting: nothing in an infobox, `LOST` elsewhere."""

GONE = DROPPED + LOST
"""Both marks of missing text, for character classes and for stripping."""

LITERAL = "\x02"
"""Encloses the number of a literal: the content of `<nowiki>`, `<pre>` and similar elements."""

EMPTY = f"{LITERAL}0{LITERAL}"
"""The empty literal. Text after it is not at the beginning of a line."""

APOSTROPHE = f"{LITERAL}1{LITERAL}"
"""The literal of an apostrophe that does not mark bold or italic."""

FIRST_LITERALS = ("", "'")
"""The literals with fixed numbers."""

PIPE = "\x03"
"""A `|` of an expanded template. It does not separate arguments of the enclosing template."""

EQUALS = "\x04"
"""A `=` of an expanded template. It does not name an argument of the enclosing template."""

BREAK = "\x05"
"""A line break inside a paragraph, a heading or a list item (`<br>`)."""

HEADING = "\x06"
"""Begins the line of a heading, followed by its level as one digit."""

LINKED = "\x0e"
"""Begins a table cell whose first `|` does not end its attributes, because a link or tag precedes it."""

ROW, KEY, CELL = "\x10", "\x11", "\x12"
ROW_LINES = ROW_START, KEY_START, CELL_START = EMPTY + ROW, EMPTY + KEY, EMPTY + CELL
"""Begin the lines of a row of a table: `ROW_START` alone, then for each cell a line of its key and one of its text. As
lines, cells pass through all other steps one by one; in the end, they become one paragraph."""

_WORD_MARKS = "\x1f\x1e"
_ALL = GONE + PLACE + LITERAL + PIPE + EQUALS + BREAK + HEADING + LINKED + ROW + KEY + CELL + _WORD_MARKS
_DELETE = dict.fromkeys(map(ord, _ALL))


def escape_title(title: str) -> str:
    """Return a title as text: apostrophes do not mark bold or italic, the first character does not mark a list."""
    return (EMPTY if title.startswith(("*", "#", ":", ";", "=")) else "") + title.replace("'", APOSTROPHE)


def remove_placeholders(text: str) -> str:
    """Delete all placeholders and jprep's separators from an input."""
    if any(map(text.__contains__, _ALL)):  # some searches in C are much faster than translate() on every page
        return text.translate(_DELETE)
    return text
