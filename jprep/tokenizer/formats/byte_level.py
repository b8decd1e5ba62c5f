"""GPT-2's byte-level alphabet (Radford et al. 2019): bytes as visible characters, `Ġ` for a space, `ãģ®` for の."""

from __future__ import annotations

import codecs

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]

BYTE_TO_CHARACTER = "".join(chr(byte) if byte in _VISIBLE else chr(0x100 + _HIDDEN.index(byte)) for byte in range(256))
"""The character of each byte."""

ALPHABET = "".join(sorted(BYTE_TO_CHARACTER))
"""The 256 characters in the order of GPT-2's ids."""

# As BYTE_TO_CHARACTER, but newlines and the cuts of units are unchanged.
_EXCEPT_CUTS = "".join(
    chr(byte) if byte in b"\n\x1f" else character for byte, character in enumerate(BYTE_TO_CHARACTER)
)
CHARACTER_TO_BYTE = {character: byte for byte, character in enumerate(BYTE_TO_CHARACTER)}
"""The byte of each character."""


def encode_bytes(text: str) -> str:
    """Convert text to GPT-2's characters, except newlines and U+001F."""
    return codecs.charmap_decode(text.encode(), "strict", _EXCEPT_CUTS)[0]


def decode_piece(piece: str) -> str:
    """Return the text of a piece, with U+FFFD for incomplete characters."""
    return bytes(map(CHARACTER_TO_BYTE.__getitem__, piece)).decode(errors="replace")


def count_characters(piece: str) -> int:
    """Return the number of characters of a piece, including incomplete ones at its beginning and end."""
    begun = sum(CHARACTER_TO_BYTE[character] & 0xC0 != 0x80 for character in piece)
    return begun + (CHARACTER_TO_BYTE[piece[0]] & 0xC0 == 0x80)
