"""A fingerprint says what an output depends on; two that differ say in which field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import xxhash


def fingerprint(fields: dict[str, Any]) -> str:
    """32 hexadecimal digits (XXH3, 128 bits) of the fields' canonical JSON."""
    return xxhash.xxh3_128_hexdigest(msgspec.json.encode(fields, order="sorted"))


def plain(fields: Any) -> dict[str, Any]:
    """The fields as they come back from JSON, so that what was written and what is at hand can be compared."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields))
    return decoded


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Each place in which two sets of fields differ, as `path: theirs -> ours`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}.{number}")
    elif ours != theirs:
        yield f"{path}: was {abbreviate(theirs)}, is {abbreviate(ours)}"


def abbreviate(value: Any) -> str:
    """Return a value as JSON, cut to 80 characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"
