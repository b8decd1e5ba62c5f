"""Inputs at any place (local, standard input, any fsspec URI) in any compression, read in bounded memory."""

from __future__ import annotations

import io

from jprep.io.inputs import codecs, raw
from jprep.io.inputs.limits import MAX_RATIO, BombGuard
from jprep.io.inputs.paths import is_local, size_of

_BUFFER = 1 << 18


class InputStream(io.BufferedReader):
    """An open input that knows how far it was read: `tell()` is the offset in its decompressed bytes.

    Attributes:
        compression: "", "gzip", "bzip2", "xz" or "zstd".
    """

    def __init__(self, stream: io.RawIOBase, source: raw.RawInput, compression: str) -> None:
        super().__init__(stream, buffer_size=_BUFFER)
        self._source = source
        self.compression = compression

    @property
    def consumed(self) -> int:
        """Bytes taken from the file as it is stored, for progress and for the place of an error."""
        return self._source.consumed


def open_input(path: str, *, start: int = 0, max_ratio: float = MAX_RATIO) -> InputStream:
    """Open an input; its compression is told by its first bytes, whatever it is called.

    Args:
        path: a local path, an fsspec URI, or "-" for standard input.
        start: the byte to begin at, for what `is_plain` says yes to.
        max_ratio: how far compressed data may expand, see `jprep.io.inputs.limits`.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read. Reading raises it too, and InputError where compressed data is damaged.
    """
    source = raw.RawInput(path, start)
    kind = "" if start else codecs.detect_compression(source.head())
    if not kind:
        return InputStream(source, source, "")
    return InputStream(raw.decompress_input(source, kind, BombGuard(path, max_ratio)), source, kind)


def open_raw(path: str) -> InputStream:
    """Open an input as it is stored, not decompressed.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read; reading raises it too.
    """
    source = raw.RawInput(path)
    return InputStream(source, source, "")


def compression_of(path: str) -> str:
    """What a file is compressed with: "", "gzip", "bzip2", "xz" or "zstd". Not for pipes: it takes their first bytes.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
    """
    with raw.RawInput(path) as source:
        return codecs.detect_compression(source.head())


def is_plain(path: str) -> bool:
    """Whether it can be read from the middle at no cost: a local regular file that is not compressed."""
    return is_local(path) and size_of(path) is not None and not compression_of(path)
