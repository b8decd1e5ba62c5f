"""Codecs that Python lacks: EUC-JP and ISO-2022-JP with NEC's characters in row 13 and IBM's in rows 89 to 92.

These are `①`, `㈱`, `髙`, `﨑` and others, as browsers read them (https://encoding.spec.whatwg.org/#index-jis0208), in
the places that `cp932` has for them in Shift_JIS. Importing this module registers the codecs; they decode these
characters, and do not encode them.
"""

from __future__ import annotations

import codecs
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

CP51932 = "cp51932"
CP50221 = "cp50221"
_BASES = {CP51932: "euc_jp", CP50221: "iso2022_jp_ext"}
_FIRST = {CP51932: 0xA0, CP50221: 0x20}  # see `_pairs`
_ROWS = (13, *range(89, 93))
_MIDDLE = 63  # rows and cells before this one have a place of their own in Shift_JIS
_ESCAPE = 0x1B
_SETS = (b"\x1b$B", b"\x1b$@")  # escape sequences before characters of JIS X 0208
_LOOK_BACK = 4096  # bytes in which the last escape sequence is looked for


def _character(row: int, cell: int) -> str:
    """Return the character of a place; "" if it has none."""
    lead = (row - 1) // 2 + (0x81 if row < _MIDDLE else 0xC1)
    trail = cell + (0x3F + (cell > _MIDDLE) if row % 2 else 0x9E)
    found = bytes([lead, trail]).decode("cp932", "replace")
    return found if len(found) == 1 and found != "\ufffd" else ""


def _pairs(first: int) -> dict[bytes, str]:
    """Return the characters by their bytes; `first` is the byte before that of row and cell 1."""
    places = ((row, cell) for row in _ROWS for cell in range(1, 95))
    return {bytes([first + row, first + cell]): char for row, cell in places if (char := _character(row, cell))}


def _is_jis_x_0212(data: bytes, start: int) -> bool:
    """Return whether the pair at an offset is of JIS X 0212: after the byte 8F, or after its escape sequence."""
    if data[start - 1 : start] == b"\x8f":
        return True
    escape = data.rfind(_ESCAPE, max(0, start - _LOOK_BACK), start)
    return escape >= 0 and data[escape : escape + 3] not in _SETS


@cache
def _handler(name: str, errors: str) -> str:
    """Return the name of an error handler that decodes these characters and leaves other errors to `errors`."""
    pairs, otherwise = _pairs(_FIRST[name]), codecs.lookup_error(errors)

    def handle(error: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(error, UnicodeDecodeError):
            found = pairs.get(error.object[error.start : error.start + 2])
            if found and not _is_jis_x_0212(error.object, error.start):
                return found, error.start + 2
        return otherwise(error)

    handler = f"jprep.{name}.{errors}"
    codecs.register_error(handler, handle)
    return handler


def _codec(name: str) -> codecs.CodecInfo | None:
    if name not in _BASES:
        return None
    base = codecs.lookup(_BASES[name])

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        return base.decode(data, _handler(name, errors))

    def decoder(errors: str = "strict") -> codecs.IncrementalDecoder:
        return base.incrementaldecoder(_handler(name, errors))

    return codecs.CodecInfo(
        base.encode, decode, incrementalencoder=base.incrementalencoder, incrementaldecoder=decoder, name=name
    )


codecs.register(_codec)
