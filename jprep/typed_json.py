"""Decode JSON to structs in any thread.

msgspec collects the fields of a struct when it decodes the first one. With msgspec 0.22 two threads that do so for the
same struct at the same time end the process by a segmentation fault. Here one thread at a time does.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON to a struct, or to a collection of structs.

    Args:
        data: the JSON.
        kind: the type.

    Raises:
        msgspec.ValidationError: the JSON is of another type.
        msgspec.DecodeError: it is not JSON.
    """
    found: T = _decoder(kind).decode(data)
    return found


def convert(value: object, kind: type[T]) -> T:
    """Convert plain data, as TOML or JSON give it, to a struct, or to a collection of structs.

    Args:
        value: dictionaries, lists, strings, numbers.
        kind: the type.

    Raises:
        msgspec.ValidationError: the data is of another type.
    """
    _decoder(kind)
    return msgspec.convert(value, kind)


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type, which knows the fields of all structs in it."""
    if kind not in _decoders:
        with _lock:
            _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]
