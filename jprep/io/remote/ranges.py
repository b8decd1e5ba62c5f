"""Read ranges of an object: what is asked for, and more the longer it is read in sequence."""

from __future__ import annotations

import io
from typing import Any

from jprep.io.remote.retry import retry_remote

_FIRST = 1 << 18  # bytes of the first request after a seek
_MOST = 8 << 20  # bytes of the largest request: it takes longer than the answer of the store


class ObjectFile:
    """An object opened for reading; each request that fails, or whose answer is too short, is repeated.

    Requests after a seek are small, so that tasks which read a part of an object load no more than that. Each
    consecutive request is twice as large as the one before, so that whole objects are read at the speed of the network.

    Args:
        file: the object, opened by its file system without a cache.
        url: its URL.
    """

    def __init__(self, file: Any, url: str) -> None:
        self._file, self._url = file, url
        self._at = self._start = 0
        self._held = b""  # bytes from `_start` on
        self._next = _FIRST
        self._size: int | None = getattr(file, "size", None) if file.seekable() else None

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self._size is None:
            data: bytes = self._file.read(size)
            return data
        size = self._size - self._at if size < 0 else min(size, max(0, self._size - self._at))
        if not self._start <= self._at < self._start + len(self._held):
            self._fetch(size)
        begin = self._at - self._start
        found = self._held[begin : begin + size]
        self._at += len(found)
        return found

    def _fetch(self, size: int) -> None:
        """Request the bytes at the position, at least `size`, and hold them."""
        assert self._size is not None
        in_sequence = bool(self._held) and self._at == self._start + len(self._held)
        self._next = min(2 * self._next, _MOST) if in_sequence else _FIRST
        wanted = min(max(size, self._next), self._size - self._at)
        self._held = b""
        if wanted > 0:
            self._start = self._at
            self._held = retry_remote(lambda: self._request(self._start, wanted), self._url, "read")

    def _request(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        data: bytes = self._file.read(size)
        if len(data) < size:
            raise OSError(f"{size} bytes were requested, and {len(data)} arrived")
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position."""
        if self._size is None:
            return int(self._file.seek(offset, whence))
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def seekable(self) -> bool:
        """Return whether the object can be read from any offset."""
        return self._size is not None

    def close(self) -> None:
        """Close the object."""
        self._held = b""
        self._file.close()
