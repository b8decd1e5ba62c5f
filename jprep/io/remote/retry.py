"""Retry operations on objects after transient errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jprep.errors import JprepError
from jprep.io.remote.errors import Access, classify_error, translate_remote_error
from jprep.io.retry import PAUSES, call_with_retries

T = TypeVar("T")


def retry_remote(call: Callable[[], T], url: str, access: Access) -> T:
    """Call a function that accesses an object, and retry after transient errors.

    Args:
        call: the function; it is called at most `len(PAUSES) + 1` times.
        url: what it accesses, for the error.
        access: what it does with it.

    Returns:
        the result of `call`.

    Raises:
        ConfigError: there is no such bucket or object, or the URL is not valid.
        MachineError: no credentials or rights, a missing package, or the last attempt failed too.
    """
    try:
        return call_with_retries(call, PAUSES, lambda error: classify_error(error) == "transient")
    except JprepError:
        raise
    except Exception as error:
        if known := translate_remote_error(error, url, access):
            raise known from error
        raise


class RetriedFile:
    """An object opened for reading whose failed reads are repeated at the same position.

    Args:
        file: the object, opened by its file system.
        url: its URL.
    """

    def __init__(self, file: Any, url: str) -> None:
        self._file, self._url = file, url

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if not self._file.seekable():
            data: bytes = self._file.read(size)
            return data
        at = self._file.tell()
        return retry_remote(lambda: self._read(at, size), self._url, "read")

    def _read(self, at: int, size: int) -> bytes:
        if self._file.tell() != at:
            self._file.seek(at)
        data: bytes = self._file.read(size)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Set the position."""
        return int(self._file.seek(offset, whence))

    def seekable(self) -> bool:
        """Return whether the object can be read from any offset."""
        return bool(self._file.seekable())

    def close(self) -> None:
        """Close the object."""
        self._file.close()
