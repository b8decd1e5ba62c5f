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
_ROWS = frozenset({13, *range(89, 93)})
_FIRST = 0x21  # byte of row 1, and of cell 1
_MIDDLE = 63  # rows and cells before this one have a place of their own in Shift_JIS


def _character(pair: bytes) -> str:
    """Return the character of a row and a cell, each with or without its high bit; "" if there is none."""
    if len(pair) < 2:
        return ""
    row, cell = (byte & 0x7F for byte in pair)
    row, cell = row - _FIRST + 1, cell - _FIRST + 1
    if row not in _ROWS or not 1 <= cell <= 94:
        return ""
    lead = (row - 1) // 2 + (0x81 if row < _MIDDLE else 0xC1)
    trail = cell + (0x3F + (cell > _MIDDLE) if row % 2 else 0x9E)
    found = bytes([lead, trail]).decode("cp932", "replace")
    return found if len(found) == 1 and found != "\ufffd" else ""


@cache
def _handler(errors: str) -> str:
    """Return the name of an error handler that decodes these characters and leaves other errors to `errors`."""

    def handle(error: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(error, UnicodeDecodeError):
            found = _character(error.object[error.start : error.start + 2])
            if found:
                return found, error.start + 2
        return codecs.lookup_error(errors)(error)

    name = f"jprep.japanese.{errors}"
    codecs.register_error(name, handle)
    return name


def _codec(name: str) -> codecs.CodecInfo | None:
    if name not in _BASES:
        return None
    base = codecs.lookup(_BASES[name])

    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        return base.decode(data, _handler(errors))

    def decoder(errors: str = "strict") -> codecs.IncrementalDecoder:
        return base.incrementaldecoder(_handler(errors))

    return codecs.CodecInfo(
        base.encode, decode, incrementalencoder=base.incrementalencoder, incrementaldecoder=decoder, name=name
    )


codecs.register(_codec)
