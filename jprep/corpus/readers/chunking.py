"""Split byte streams between records, so that any shard size gives the same records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from jprep.errors import InputError, Setting

_BLOCK = 1 << 20
_PENDING = 2
# A separator may continue with "\r\n" after the bytes read so far.


class RecordSeparator(NamedTuple):
    """A separator of records. Records begin at the start of the input and at the end of each match.

    Attributes:
        pattern: matches a separator, or its last `behind` bytes.
        behind: bytes before the beginning of a record that are sufficient to recognize it.
    """

    pattern: re.Pattern[bytes]
    behind: int


# Possessive, since `re` otherwise keeps some hundred bytes per repetition for backtracking.
SEPARATORS = {
    "line": RecordSeparator(re.compile(rb"\n"), 1),
    "blank_line": RecordSeparator(re.compile(rb"\n(?:\r?\n)++"), 3),
    "file": RecordSeparator(re.compile(rb"(?!)"), 0),
}


class Chunk(NamedTuple):
    """One or more complete records.

    Attributes:
        start: offset of the first record in the decompressed input.
        data: bytes of the records.
    """

    start: int
    data: bytes


class Chunker:
    """Splits a stream between records.

    Args:
        stream: the stream, positioned at offset `start` of the decompressed input.
        path: path of the input, for errors.
        limit: maximum size of a record in bytes.
        start: offset of the stream in the decompressed input.
    """

    def __init__(self, stream: BinaryIO, path: str, limit: int, start: int = 0) -> None:
        self.start = start
        self._stream, self._path, self._limit = stream, path, limit
        self._data = bytearray()
        self._ended = False

    def head(self, size: int) -> bytes:
        """Return up to `size` bytes from the current position without advancing."""
        while len(self._data) < size and not self._ended:
            self._fill()
        return bytes(self._data[:size])

    def chunks(self, separator: RecordSeparator, size: int) -> Iterator[Chunk]:
        """Yield all remaining records, in chunks of at least `size` bytes except the last one."""
        while self.head(1):
            yield self.take(self.boundary(separator, self.start + size))

    def take(self, end: int) -> Chunk:
        """Return the bytes up to the offset `end`, and advance to it."""
        size = end - self.start
        with memoryview(self._data) as view:
            chunk = Chunk(self.start, bytes(view[:size]))
        del self._data[:size]
        self.start = end
        return chunk

    def boundary(self, separator: RecordSeparator, at: int, until: int | None = None) -> int:
        """Return the offset of the first record that begins at or after `at`.

        Args:
            separator: separator of records.
            at: offset to start from.
            until: if no record begins before this offset, return it instead of searching on.

        Returns:
            An offset, at most the end of the input.

        Raises:
            InputError: the record before it is larger than the limit.
        """
        seen = at
        while True:
            end = self._search(separator, at, seen)
            if end is not None and (end + _PENDING <= self._end or self._ended):
                return end
            if self._ended:
                return self._end
            if until is not None and end is None and self._end >= until:
                return until
            if self._end - at > self._limit:
                raise record_too_large(self._path, at, self._limit)
            # Do not search again from the beginning of a separator that continues in the next block.
            seen = max(at, self._end) if end is None else end
            self._fill()

    def _search(self, separator: RecordSeparator, at: int, seen: int) -> int | None:
        """Return the end of the first separator that ends at or after `at`. None ends before `seen`."""
        begin = max(0, seen - separator.behind - self.start)
        ends = (match.end() + self.start for match in separator.pattern.finditer(self._data, begin))
        return next((end for end in ends if end >= at), None)

    @property
    def _end(self) -> int:
        return self.start + len(self._data)

    def _fill(self) -> None:
        block = self._stream.read(_BLOCK)
        self._data += block
        self._ended = not block


def read_range(stream: BinaryIO, path: str, start: int, end: int, separator: RecordSeparator, limit: int) -> Chunk:
    """Read the records of a seekable stream that begin in the range [`start`, `end`)."""
    begin = max(0, start - separator.behind)
    stream.seek(begin)
    chunker = Chunker(stream, path, limit, begin)
    first = chunker.boundary(separator, start, until=end) if start else 0
    if first >= end:
        return Chunk(end, b"")
    chunker.take(first)
    return chunker.take(chunker.boundary(separator, end))


def split_records(chunk: Chunk, separator: RecordSeparator, path: str, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each record of a chunk, including the separator after it.

    Raises:
        InputError: a record is larger than `limit` bytes.
    """
    ends = (match.end() for match in separator.pattern.finditer(chunk.data))
    begin = 0
    for end in chain(ends, [len(chunk.data)]):
        if end - begin > limit:
            raise record_too_large(path, chunk.start + begin, limit)
        if end > begin:
            yield chunk.start + begin, chunk.data[begin:end]
        begin = end


def record_too_large(path: str, offset: int, limit: int) -> InputError:
    """Return the error for a record over the limit."""
    return InputError(
        f"a record is larger than {limit / 1e6:g} MB",
        where=f"{path}, byte {offset}",
        fix="set what separates documents (the option `documents` of the reader `text`), or raise `max_record_mb`",
        setting=Setting("max_record_mb"),
    )
