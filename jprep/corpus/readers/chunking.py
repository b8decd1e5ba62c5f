"""Cutting bytes at the beginnings of records, so that any shard size gives the same records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from jprep.errors import InputError

_BLOCK = 1 << 20
_PENDING = 2
# A separator may go on with "\r\n" after the bytes seen so far.


class RecordSeparator(NamedTuple):
    """What stands between records: a record begins where a match ends, and nowhere else but at the input's start.

    Attributes:
        pattern: matches a separator, or any tail of one that is `behind` bytes long, to its end.
        behind: bytes before a record's beginning that show that it is one.
    """

    pattern: re.Pattern[bytes]
    behind: int


# Possessive, since `re` keeps some hundred bytes for each repetition that it could give back.
SEPARATORS = {
    "line": RecordSeparator(re.compile(rb"\n"), 1),
    "blank_line": RecordSeparator(re.compile(rb"\n(?:\r?\n)++"), 3),
    "file": RecordSeparator(re.compile(rb"(?!)"), 0),
}


class Chunk(NamedTuple):
    """Whole records.

    Attributes:
        start: offset of the first in the decompressed input.
        data: their bytes.
    """

    start: int
    data: bytes


class Chunker:
    """Cuts a stream between records.

    Args:
        stream: where to read from, at offset `start` of the decompressed input.
        path: its name, for errors.
        limit: bytes that one record may have.
    """

    def __init__(self, stream: BinaryIO, path: str, limit: int, start: int = 0) -> None:
        self.start = start
        self._stream, self._path, self._limit = stream, path, limit
        self._data = bytearray()
        self._ended = False

    def head(self, size: int) -> bytes:
        """The first bytes from here, `size` of them where there are as many; they stay to be cut."""
        while len(self._data) < size and not self._ended:
            self._fill()
        return bytes(self._data[:size])

    def pieces(self, separator: RecordSeparator, size: int) -> Iterator[Chunk]:
        """All records from here on, in pieces of at least `size` bytes but for the last."""
        while self.head(1):
            yield self.take(self.boundary(separator, self.start + size))

    def take(self, end: int) -> Chunk:
        """What lies between here and `end`, which becomes here."""
        size = end - self.start
        with memoryview(self._data) as view:
            piece = Chunk(self.start, bytes(view[:size]))
        del self._data[:size]
        self.start = end
        return piece

    def boundary(self, separator: RecordSeparator, at: int, until: int | None = None) -> int:
        """Where the first record at or after `at` begins: at most the input's end, or `until` where none begins before.

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
            # A separator that goes on in the next block is not searched from its beginning again.
            seen = max(at, self._end) if end is None else end
            self._fill()

    def _search(self, separator: RecordSeparator, at: int, seen: int) -> int | None:
        """The end of the first separator that ends at or after `at`; none ends before `seen`, but one may reach it."""
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
    """The records of a seekable stream that begin at `start` or after it, and before `end`."""
    begin = max(0, start - separator.behind)
    stream.seek(begin)
    cutter = Chunker(stream, path, limit, begin)
    first = cutter.boundary(separator, start, until=end) if start else 0
    if first >= end:
        return Chunk(end, b"")
    cutter.take(first)
    return cutter.take(cutter.boundary(separator, end))


def split_records(piece: Chunk, separator: RecordSeparator, path: str, limit: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each record, with the separator that follows it.

    Raises:
        InputError: a record is larger than the limit.
    """
    ends = (match.end() for match in separator.pattern.finditer(piece.data))
    begin = 0
    for end in chain(ends, [len(piece.data)]):
        if end - begin > limit:
            raise record_too_large(path, piece.start + begin, limit)
        if end > begin:
            yield piece.start + begin, piece.data[begin:end]
        begin = end


def record_too_large(path: str, offset: int, limit: int) -> InputError:
    """The error for a record over the limit."""
    return InputError(
        f"a record is larger than {limit / 1e6:g} MB",
        where=f"{path}, byte {offset}",
        fix="choose what separates documents (the option `documents` of the reader `text`), or raise `max_record_mb`",
    )
