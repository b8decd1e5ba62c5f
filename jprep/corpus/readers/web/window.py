"""A forward-only view of a stream, in bounded memory."""

from __future__ import annotations

import re
from typing import Protocol

_BLOCK = 1 << 18
_OVERLAP = 64


class _Stream(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Window:
    """The bytes of a stream from its position on; only those that were looked at are in memory.

    Args:
        stream: the stream.
        start: its offset in the input.

    Attributes:
        start: offset of the first byte that was not skipped.
    """

    def __init__(self, stream: _Stream, start: int = 0) -> None:
        self.start = start
        self._stream = stream
        self._data = bytearray()
        self._ended = False

    def peek(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from `start + at` on; fewer only at the end of the stream."""
        self._fill(at + size)
        with memoryview(self._data) as view:
            return bytes(view[at : at + size])

    def holds(self, size: int) -> bool:
        """Return whether that many bytes were looked at and not skipped."""
        return len(self._data) >= size

    def skip(self, size: int) -> None:
        """Advance by `size` bytes that were looked at."""
        size = min(size, len(self._data))
        del self._data[:size]
        self.start += size

    def advance(self, size: int) -> bool:
        """Advance by `size` bytes, whether or not they were looked at; return whether the stream has that many."""
        while size > 0 and (held := self._fill(1)):
            self.skip(step := min(size, held))
            size -= step
        return size == 0

    def skip_to(self, pattern: re.Pattern[bytes]) -> bool:
        """Advance to the next match of at most 64 bytes, at the present position or after it.

        Returns:
            False if there is none; the window is then at the end of the stream.
        """
        while self._fill(_BLOCK):
            if match := pattern.search(self._data):
                at = match.start()
                del match  # its hold on the data would forbid deleting from them
                self.skip(at)
                return True
            self.skip(len(self._data) if self._ended else len(self._data) - _OVERLAP)
        return False

    def _fill(self, size: int) -> int:
        """Have that many bytes in memory, or all that are left; return their number."""
        while len(self._data) < size and not self._ended:
            block = self._stream.read1(_BLOCK)
            self._data += block
            self._ended = not block
        return len(self._data)
