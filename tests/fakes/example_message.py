"""An independent reader of `tf.train.Example`, a message of Protocol Buffers."""

from __future__ import annotations

from typing import Any

import numpy as np


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer; return it, and where the next one begins."""
    number = shift = 0
    while True:
        byte, at = data[at], at + 1
        number, shift = number | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return number, at


def read_fields(message: bytes) -> list[tuple[int, Any]]:
    """Return the fields of a message: their numbers, with integers or bytes."""
    found, at = list[tuple[int, Any]](), 0
    while at < len(message):
        tag, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if tag & 7 == 0:
            found.append((tag >> 3, value))
        else:
            found.append((tag >> 3, message[at : at + value]))
            at += value
    return found


def read_example(record: bytes) -> dict[str, Any]:
    """Return the features of an Example by their names."""
    row: dict[str, Any] = {}
    for number, entry in read_fields(_only_field(record, 1)):
        (key, name), (value, feature) = read_fields(entry)
        [(kind, values)] = read_fields(feature)
        assert (number, key, value) == (1, 1, 2) and kind in (2, 3)
        packed = _only_field(values, 1) if values else b""
        row[name.decode()] = np.frombuffer(packed, "<f4").tolist() if kind == 2 else _integers(packed)
    return row


def _only_field(message: bytes, number: int) -> bytes:
    """Return the bytes of a message's only field, which must have this number."""
    [(found, value)] = read_fields(message)
    assert found == number
    return bytes(value)


def _integers(packed: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(packed):
        number, at = read_varint(packed, at)
        numbers.append(number - 2**64 if number >= 2**63 else number)
    return numbers
