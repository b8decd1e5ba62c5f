"""Find the records in the parts of a compressed file, each on its own, and cut the file into shards between them.

The shards are those that `Chunker` makes when it reads the file from its start: each ends at the first record that
begins `shard_bytes` or more after the beginning of the shard. Since that depends on all shards before it, the offsets
of all records are kept until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import zstandard

from jprep.corpus.readers.chunking import SEPARATORS, record_too_large
from jprep.corpus.stages.planned_shards import PlannedShard, Stored
from jprep.corpus.step import RecordScan, Shard
from jprep.io.inputs.limits import corrupt_error
from jprep.io.inputs.segments import SegmentInput, open_segments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 4 << 20  # bytes searched at a time
_PIECE = 1 << 18
_APART = 1 << 18  # decompressed bytes between two segments that are kept
_NEWLINES = b"\r\n"


class PartRecords(msgspec.Struct, frozen=True):
    """The records of one part of a file.

    Attributes:
        size: decompressed bytes of the part.
        segments: stored offsets of segments, each with the number of decompressed bytes before it in the part.
        ends: offsets in the part at which separators end, as differences of 32 bits, compressed.
    """

    size: int
    segments: list[tuple[int, int]]
    ends: bytes

    def offsets(self) -> NDArray[np.int64]:
        """Return the offsets in the part at which records begin, without its start; some may lie after its end."""
        import numpy as np

        packed = zstandard.ZstdDecompressor().decompress(self.ends) if self.ends else b""
        return np.cumsum(np.frombuffer(packed, "<u4"), dtype=np.int64)


def scan_part(path: str, start: int, end: int, scan: RecordScan) -> PartRecords:
    """Return the records of a part of a compressed file.

    Args:
        path: the file.
        start: stored offset of the segment with which the part begins.
        end: that of the segment after it; -1 for the end of the file.
        scan: what separates the records.

    Raises:
        InputError: the file is damaged, or a record is too large.
    """
    with closing(open_segments(path, start, scan.max_ratio)) as stream:
        return _Scanner(path, scan, stream).run(end)


class _Scanner:
    """Searches the decompressed bytes of one part for separators."""

    def __init__(self, path: str, scan: RecordScan, stream: SegmentInput) -> None:
        self._path, self._scan, self._stream = path, scan, stream
        self._pattern = SEPARATORS[scan.separator].pattern
        self._size = self._searched = 0
        self._data = bytearray()  # what has not been searched
        self._segments: list[tuple[int, int]] = []
        self._segment = -1
        self._found: list[NDArray[np.int64]] = []

    def run(self, end: int) -> PartRecords:
        import numpy as np

        pieces = self._pieces()
        for segment, piece in pieces:
            if 0 <= end <= segment:
                self._require_boundary(segment == end, end)
                self._complete_separator(piece, pieces)
                break
            self._add(segment, piece)
        else:
            self._require_boundary(self._stream.segment >= end, end)
        self._search(len(self._data))
        ends = np.concatenate([np.zeros(1, np.int64), *self._found])
        packed = np.diff(ends).astype("<u4").tobytes()
        return PartRecords(self._size, self._segments, zstandard.ZstdCompressor(level=3).compress(packed))

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        buffer = bytearray(_PIECE)
        while size := self._stream.readinto(buffer):
            yield self._stream.segment, bytes(buffer[:size])

    def _require_boundary(self, found: bool, end: int) -> None:
        if not found:
            raise corrupt_error(self._path, end, "a part begins where no part ends")

    def _add(self, segment: int, piece: bytes) -> None:
        if segment != self._segment and (not self._segments or self._size - self._segments[-1][1] >= _APART):
            self._segments.append((segment, self._size))
        self._segment = segment
        self._data += piece
        self._size += len(piece)
        if len(self._data) >= _BATCH:
            self._search(len(self._data.rstrip(_NEWLINES)))  # a separator at the end may continue

    def _complete_separator(self, piece: bytes, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Append the rest of a separator that continues in the next part."""
        for each in _chain(piece, pieces):
            newlines = len(each) - len(each.lstrip(_NEWLINES))
            self._data += each[:newlines]
            self._refuse_large()
            if newlines < len(each):
                return

    def _search(self, size: int) -> None:
        """Search the first bytes for separators that begin in this part."""
        import numpy as np

        own = self._size - self._searched
        data = bytes(memoryview(self._data)[:size])
        if self._scan.separator == "line":
            ends = np.flatnonzero(np.frombuffer(data, np.uint8)[:own] == ord("\n")) + 1
        else:
            ends = np.array([m.end() for m in self._pattern.finditer(data) if m.start() < own], np.int64)
        self._found.append(ends + self._searched)
        self._searched += size
        del self._data[:size]
        self._refuse_large()

    def _refuse_large(self) -> None:
        if len(self._data) > self._scan.limit + _BATCH:
            raise record_too_large(self._path, self._searched, self._scan.limit)


def _chain(piece: bytes, pieces: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    yield piece
    yield from (each for _, each in pieces)


class _Place(NamedTuple):
    """A segment: its stored offset, and its offset in the decompressed file."""

    stored: int
    offset: int


def cut_shards(path: str, stored_size: int, scan: RecordScan, parts: Iterable[PartRecords]) -> Iterator[PlannedShard]:
    """Yield the shards of a file whose parts were scanned.

    Args:
        path: the file.
        stored_size: its size.
        scan: what separates the records.
        parts: the records of all parts, in order.

    Raises:
        InputError: a record is too large.
    """
    import numpy as np

    begin, index, size, places = 0, 0, 0, list[_Place]()
    for part in parts:
        places += [_Place(stored, size + offset) for stored, offset in part.segments]
        ends = part.offsets() + size
        size += part.size
        while (at := int(np.searchsorted(ends, begin + scan.shard_bytes))) < len(ends):
            end = int(ends[at])
            _refuse_large(path, end - begin, begin, scan)
            yield _shard(path, index, begin, end, places, _stored_offset(places, end), scan)
            begin, index = end, index + 1
            places = _from(places, begin)
        _refuse_large(path, size - begin, begin, scan)
    if begin < size:
        yield _shard(path, index, begin, size, places, stored_size, scan)


def _refuse_large(path: str, size: int, begin: int, scan: RecordScan) -> None:
    if size > scan.shard_bytes + scan.limit:
        raise record_too_large(path, begin + scan.shard_bytes, scan.limit)


def _shard(
    path: str, index: int, begin: int, end: int, places: list[_Place], stored_end: int, scan: RecordScan
) -> PlannedShard:
    place = _from(places, begin)[0]
    weight = stored_end - (place.stored if index else 0)
    shard = Shard(path, index, begin, end, weight=weight, hints=scan.hints)
    stored = Stored(end - begin, segment=place.stored, skip=begin - place.offset, max_ratio=scan.max_ratio)
    return PlannedShard(shard, stored)


def _stored_offset(places: list[_Place], offset: int) -> int:
    return _from(places, offset)[0].stored


def _from(places: list[_Place], offset: int) -> list[_Place]:
    """Return the places from the last one at or before an offset on."""
    first = max((number for number, place in enumerate(places) if place.offset <= offset), default=0)
    return places[first:]
