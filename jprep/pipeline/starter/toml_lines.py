"""Write TOML with a comment for each key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from jprep.toml_values import toml, toml_key

_WIDTH = 110
"""Longest line; a comment that does not fit is written above its key."""


class Key(NamedTuple):
    """A key of a table, with its value as plain data and a comment."""

    name: str
    value: Any
    comment: str


def table(header: str, keys: Iterable[Key], *above: str) -> str:
    """Return a table: comments, its header such as `[train]`, and a line for each key."""
    comments = (f"# {line}".rstrip() for line in above)
    return "\n".join([*comments, *([header] if header else []), *map(_line, keys)]) + "\n"


def _line(key: Key) -> str:
    text = f"{toml_key(key.name)} = {toml(key.value)}"
    if len(text) + len(key.comment) + 3 <= _WIDTH:
        return f"{text} # {key.comment}"
    return f"# {key.comment}\n{text}"
