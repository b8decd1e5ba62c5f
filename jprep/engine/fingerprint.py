"""Fingerprints: hashes of everything that an output depends on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import xxhash


def fingerprint(fields: dict[str, Any]) -> str:
    """Return 32 hexadecimal digits (XXH3, 128 bits) of the canonical JSON of some fields."""
    return xxhash.xxh3_128_hexdigest(msgspec.json.encode(fields, order="sorted"))


def plain(fields: Any) -> dict[str, Any]:
    """Return fields as JSON gives them back, so that they can be compared with fields that were read from a file."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields))
    return decoded


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield each difference of two sets of fields, as `path: was theirs, is ours`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}.{number}")
    elif ours != theirs:
        yield f"{path}: was {abbreviate(theirs)}, is {abbreviate(ours)}"


def abbreviate(value: Any) -> str:
    """Return a value as JSON, shortened to 80 characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"
