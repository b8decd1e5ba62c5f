"""One interface for gzip, bzip2, xz and Zstandard decoders, with bounded output and exact ends of streams."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

try:
    import indexed_bzip2 as indexed_bzip2
except ImportError:  # no wheel for this platform: the standard library's module gives the same bytes, more slowly
    indexed_bzip2 = None

MAGIC_BYTES = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_BZIP2 = re.compile(rb"BZh(?:[1-9](?:[1\x17]|\Z)|\Z)")  # with the level and the first byte of a block, or of the end
HEAD_BYTES = 6
"""Number of bytes that identify a compression."""

DECODER_ERRORS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)
"""Errors that the decoders raise for corrupt data (`bz2` raises a plain OSError)."""

_ZSTD_PIECE = 2048
# A block of three bytes and a symbol can expand to 128 KiB, so this piece expands to 64 MiB at most.


class Decoder(Protocol):
    """A decoder of one stream (gzip member, bzip2 or xz stream, Zstandard frame)."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream, with its checksum, was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether more output needs more input."""

    @property
    def unused_data(self) -> bytes:
        """Input after the end of the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress to about `max_length` bytes."""


class _Gzip:
    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


class _Zstd:
    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._pending = b""

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._pending

    def decompress(self, data: bytes, max_length: int) -> bytes:
        # The library cannot limit its output, so its input is limited.
        self._pending += data
        parts, size = [], 0
        while self._pending and size < max_length and not self._frame.eof:
            piece, self._pending = self._pending[:_ZSTD_PIECE], self._pending[_ZSTD_PIECE:]
            parts.append(self._frame.decompress(piece))
            size += len(parts[-1])
        return b"".join(parts)


DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": _Gzip,
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    "zstd": _Zstd,
}


def detect_compression(head: bytes) -> str:
    """Return the compression that a file's first bytes identify: "", "gzip", "bzip2", "xz" or "zstd"."""
    if head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50:  # a skippable frame, as pzstd writes first
        return "zstd"
    if _BZIP2.match(head):  # text may begin with BZh
        return "bzip2"
    return next((name for magic, name in MAGIC_BYTES.items() if head.startswith(magic)), "")
