"""JSON files with a seal, a hash of their content: a byte that a disk has changed is noticed before it is used."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import xxhash

T = TypeVar("T")

_SEAL = "seal"


def sealed(content: object) -> bytes:
    """Return a struct as indented JSON with one more key, `seal`: the XXH3 (128 bits) of the rest, its keys sorted."""
    fields = msgspec.json.decode(msgspec.json.encode(content))
    return msgspec.json.format(msgspec.json.encode({**fields, _SEAL: _digest(fields)}), indent=1)


def unsealed(data: bytes, kind: type[T]) -> T:
    """Return the content of a sealed file. Files of earlier versions, without a seal, are taken as they are.

    Raises:
        msgspec.DecodeError: it is no JSON of that type, or not what was written.
    """
    try:
        fields = msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    if isinstance(fields, dict) and fields.pop(_SEAL, None) not in (None, _digest(fields)):
        raise msgspec.DecodeError("it is not what was written")
    return msgspec.json.decode(data, type=kind)


def _digest(fields: dict[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(msgspec.json.encode(fields, order="sorted"))
