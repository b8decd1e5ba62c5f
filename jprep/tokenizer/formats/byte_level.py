"""GPT-2's way to write bytes as visible characters (Radford et al. 2019): `Ġ` is a space, `ãģ®` is の."""

from __future__ import annotations

import codecs

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]

BYTE_TO_CHARACTER = "".join(chr(byte) if byte in _VISIBLE else chr(0x100 + _HIDDEN.index(byte)) for byte in range(256))
"""The character of each byte."""

ALPHABET = "".join(sorted(BYTE_TO_CHARACTER))
"""The 256 characters in the order of GPT-2's ids."""

# As TABLE, but a newline and the cut of units stay what they are.
_KEEPING = "".join(chr(byte) if byte in b"\n\x1f" else character for byte, character in enumerate(BYTE_TO_CHARACTER))
CHARACTER_TO_BYTE = {character: byte for byte, character in enumerate(BYTE_TO_CHARACTER)}
"""The byte of each character."""


def spell(text: str) -> str:
    """Text in GPT-2's characters, but for newlines and U+001F, which stay."""
    return codecs.charmap_decode(text.encode(), "strict", _KEEPING)[0]


def plain(piece: str) -> str:
    """The text that a piece spells; U+FFFD where it holds a part of a character."""
    return bytes(map(CHARACTER_TO_BYTE.__getitem__, piece)).decode(errors="replace")


def characters(piece: str) -> int:
    """How many characters a piece spells, parts of one counted with it: bytes that begin one, and what comes before."""
    begun = sum(CHARACTER_TO_BYTE[character] & 0xC0 != 0x80 for character in piece)
    return begun + (CHARACTER_TO_BYTE[piece[0]] & 0xC0 == 0x80)
