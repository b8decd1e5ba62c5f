"""Write TOML with a comment for each key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jprep.io.escaping import escaped_json

_WIDTH = 110
"""Longest line; a comment that does not fit is written above its key."""


class Key(NamedTuple):
    """A key of a table, with its value as plain data and a comment."""

    name: str
    value: Any
    comment: str


def table(header: str, keys: Iterable[Key], *above: str) -> str:
    """Return a table: comments, its header such as `[train]`, and a line for each key."""
    return "\n".join([*(f"# {line}" for line in above), *([header] if header else []), *map(_line, keys)]) + "\n"


def toml(value: Any) -> str:
    """Return a value as TOML: a string, number, boolean, list or mapping."""
    if isinstance(value, str):
        return escaped_json(json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return repr(value)


def _line(key: Key) -> str:
    text = f"{key.name} = {toml(key.value)}"
    if len(text) + len(key.comment) + 3 <= _WIDTH:
        return f"{text} # {key.comment}"
    return f"# {key.comment}\n{text}"
