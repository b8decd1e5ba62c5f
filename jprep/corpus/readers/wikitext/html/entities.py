"""Character references: `&amp;` and `&#38;`."""

from __future__ import annotations

import html
import html.entities
import re
from functools import lru_cache

# The semicolon is required, as in MediaWiki: `?a=1&copy=2` is part of a URL.
_ENTITY = re.compile(r"&(?:#[0-9]{1,10}|#[xX][0-9a-fA-F]{1,10}|[A-Za-z][A-Za-z0-9]{1,31});")


def decode_entities(text: str) -> str:
    """Replace each character reference by its character. Unknown names are kept."""
    return _ENTITY.sub(lambda match: _character(match[0]), text) if "&" in text else text


@lru_cache(maxsize=4096)
def _character(entity: str) -> str:
    if entity[1] == "#":
        return html.unescape(entity)
    return html.entities.html5.get(entity[1:], entity)
