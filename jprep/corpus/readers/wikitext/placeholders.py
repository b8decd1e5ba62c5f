"""Control characters that stand for something while a page is taken apart; no input or output holds one."""

from __future__ import annotations

DROPPED = "\x01"
"""Something that a reader does not read stood here."""

LITERAL = "\x02"
"""Stands on both sides of a literal's number: what `<nowiki>`, `<pre>` and their kin hold."""

EMPTY = f"{LITERAL}0{LITERAL}"
"""The literal that holds nothing; what follows it does not begin a line."""

APOSTROPHE = f"{LITERAL}1{LITERAL}"
"""The literal of an apostrophe, which never marks bold or italic."""

FIRST_LITERALS = ("", "'")
"""The literals that every page has."""

PIPE = "\x03"
"""A `|` of an expanded template: it does not part the arguments of the template around it."""

EQUALS = "\x04"
"""A `=` of an expanded template: it does not name an argument of the template around it."""

BREAK = "\x05"
"""A line break inside a paragraph, a heading or a list item (`<br>`)."""

HEADING = "\x06"
"""Begins a heading's line; the heading's level, one digit, follows."""

LINKED = "\x0e"
"""Begins a table cell whose first `|` does not end its attributes, because a link or a tag stands before it."""

_WORD_MARKS = "\x1f\x1e"
_ALL = DROPPED + LITERAL + PIPE + EQUALS + BREAK + HEADING + LINKED + _WORD_MARKS
_DELETE = dict.fromkeys(map(ord, _ALL))


def escape_title(title: str) -> str:
    """A title as text: its apostrophes mark neither bold nor italic, its first character no list."""
    return (EMPTY if title.startswith(("*", "#", ":", ";", "=")) else "") + title.replace("'", APOSTROPHE)


def remove_placeholders(text: str) -> str:
    """Delete from an input the characters that have a meaning here, or at jprep's word and sentence boundaries."""
    if any(map(text.__contains__, _ALL)):  # nine C-level searches: a translate() of every page would cost far more
        return text.translate(_DELETE)
    return text
