"""Control characters that stand for something while a page is taken apart; no input or output holds one."""

from __future__ import annotations

DROP = "\x01"
"""Something that a reader does not read stood here."""

LITERAL = "\x02"
"""Stands on both sides of a literal's number: what `<nowiki>`, `<pre>` and their kin hold."""

PIPE = "\x03"
"""A `|` of an expanded template: it does not part the arguments of the template around it."""

EQUALS = "\x04"
"""A `=` of an expanded template: it does not name an argument of the template around it."""

BREAK = "\x05"
"""A line break inside a paragraph, a heading or a list item (`<br>`)."""

HEADING = "\x06"
"""Begins a heading's line; the heading's level, one digit, follows."""

_WORD_MARKS = "\x1f\x1e"
_ALL = DROP + LITERAL + PIPE + EQUALS + BREAK + HEADING + _WORD_MARKS
_DELETE = dict.fromkeys(map(ord, _ALL))


def without_marks(text: str) -> str:
    """Delete from an input the characters that have a meaning here, or at jprep's word and sentence boundaries."""
    if any(map(text.__contains__, _ALL)):  # eight C-level searches: a translate() of every page would cost far more
        return text.translate(_DELETE)
    return text
