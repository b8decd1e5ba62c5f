"""Open inputs at any path, URL or standard input, in any compression, and read them in bounded memory."""

from __future__ import annotations

import io

from jprep.io.inputs import codecs, raw
from jprep.io.inputs.limits import MAX_RATIO, BombGuard
from jprep.io.inputs.paths import STDIN, is_local, size_of

_BUFFER = 1 << 18


class InputStream(io.BufferedReader):
    """An open input; `tell()` is the offset in its decompressed bytes.

    Attributes:
        compression: "", "gzip", "bzip2", "xz" or "zstd".
    """

    def __init__(self, stream: io.RawIOBase, source: raw.RawInput, compression: str) -> None:
        super().__init__(stream, buffer_size=_BUFFER)
        self._source = source
        self.compression = compression

    @property
    def consumed(self) -> int:
        """Stored bytes read so far, for progress and for the location of errors."""
        return self._source.consumed


def open_input(path: str, *, start: int = 0, max_ratio: float = MAX_RATIO) -> InputStream:
    """Open an input; its compression is detected from its first bytes, not from its name.

    Args:
        path: a local path, a URL of fsspec, or "-" for standard input.
        start: the byte to begin at; only for inputs for which `is_plain` is true.
        max_ratio: maximum expansion of compressed data, see `jprep.io.inputs.limits`.

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
    """Open an input without decompressing it.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read; reading raises it too.
    """
    source = raw.RawInput(path)
    return InputStream(source, source, "")


def compression_of(path: str) -> str:
    """Return the compression of a file: "", "gzip", "bzip2", "xz" or "zstd". Not for pipes: it reads their first bytes.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
    """
    with raw.RawInput(path) as source:
        return codecs.detect_compression(source.head())


def can_seek(path: str) -> bool:
    """Return whether an input can be read from any offset: a regular file, or an object sent in ranges."""
    if path == STDIN or size_of(path) is None:
        return False
    if is_local(path):
        return True
    with raw.RawInput(path) as source:
        return source.seekable()


def is_plain(path: str) -> bool:
    """Return whether reading can begin anywhere: the input is not compressed, and can be read from any offset."""
    return can_seek(path) and not compression_of(path)
