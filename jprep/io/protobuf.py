"""Writes the little of Protocol Buffers' wire format that some files need: numbers, bytes and floats by field."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """A number from 0 in base 128, its lowest digits first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """An integer; a negative one travels as 64 bits."""
    return encode_varint(field << 3) + encode_varint(value % 2**64)


def data(field: int, value: bytes) -> bytes:
    """Bytes, a text's UTF-8, or a message."""
    return encode_varint(field << 3 | 2) + encode_varint(len(value)) + value
