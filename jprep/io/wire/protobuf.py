"""Encode fields in the wire format of Protocol Buffers."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """Encode a non-negative integer in base 128, least significant digits first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode an integer field; a negative value is stored as 64 bits."""
    return encode_varint(field << 3) + encode_varint(value % 2**64)


def data(field: int, value: bytes) -> bytes:
    """Encode a field of bytes: a string's UTF-8, or a message."""
    return encode_varint(field << 3 | 2) + encode_varint(len(value)) + value
