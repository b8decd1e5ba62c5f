"""Write keys and values of TOML: in recipes that jprep makes, and in the fixes of errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jprep.io.escaping import escaped_json

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(value: Any) -> str:
    """Return a value as TOML: a string, number, boolean, date, list or mapping."""
    if isinstance(value, str):
        return escaped_json(json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml(each)}' for key, each in value.items())} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)


def toml_key(name: str) -> str:
    """Return the name of a key as TOML: quoted unless it consists of ASCII letters, digits, `_` and `-`."""
    return name if _BARE.fullmatch(name) else toml(name)
