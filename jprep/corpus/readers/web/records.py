"""Find the records of a WARC file, and continue after damaged ones.

A file is read in one of two ways. `members`: each record is a gzip member, as crawlers write them and the standard
recommends, so that a file can be cut anywhere. `records`: one stream of records, plain or in any other compression.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator

import msgspec

from jprep.corpus.readers.web.window import Window
from jprep.io.inputs.limits import UNCHECKED_BYTES

MAX_HEADER = 1 << 15
"""The most bytes that the WARC header of a record may have."""

_BLOCK = 1 << 16
_OUT = 1 << 20
_RETAINED = 1 << 24  # compressed bytes of a member that are kept to look for a member among them, if it is damaged
_CHAIN = 1 << 17
# zlib stores what cannot be compressed, such as a WARC file that was crawled, in blocks of less than 64 KiB, each with
# a header. Members that follow each other for 128 KiB are therefore not a part of another member.

_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL)
_VERSION = re.compile(rb"WARC/\d\.\d\r?\n")
_NEXT = re.compile(rb"WARC/\d\.\d\r?\n[A-Z][\w-]{1,40}:", re.IGNORECASE)
_HEADER = re.compile(rb"WARC/\d\.\d\r?\n(?:[^\r\n]++\r?\n)*+\r?\n")
_LENGTH = re.compile(rb"\nContent-Length[ \t]*+:[ \t]*+(\d{1,15})[ \t]*+\r?\n", re.IGNORECASE)
_BEHIND = re.compile(rb"\r\n\r\n|[\r\n]*+(?:WARC/\d|\Z)")
_AFTER = 32
_BEGIN = 1024  # compressed bytes that hold the first line of a record


class RawRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record, or a damaged place.

    Attributes:
        start: offset of the record, or of its gzip member, in the file.
        data: header and block of the record; of a faulty one the beginning.
        fault: "", "too_large", or "damaged".
        detail: what is damaged.
        inner: offset in the gzip member.
    """

    start: int
    data: bytes
    fault: str = ""
    detail: str = ""
    inner: int = 0

    @property
    def position(self) -> str:
        """The position as text, unique in the file."""
        return f"{self.start}.{self.inner}" if self.inner else str(self.start)


class Limits(msgspec.Struct, frozen=True):
    """Limits of a record.

    Attributes:
        size: maximum size of its block in bytes.
        ratio: maximum ratio of decompressed to compressed bytes of a gzip member over 64 MiB.
    """

    size: int
    ratio: float


def is_per_record(window: Window) -> bool:
    """Return whether each record of a gzip file is a member of its own, judged by the file's first megabyte.

    A file is one stream of records only if its first member, as far as it can be read, does not end with its record.
    """
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        begin = decoder.decompress(window.peek(0, _OUT), MAX_HEADER)
        header = _HEADER.match(begin)
        length = _content_length(header)
        if header is None or length < 0:
            return True
        size = header.end() + length
        begin += decoder.decompress(decoder.unconsumed_tail, max(1, min(size + _AFTER, 8 * _OUT) - len(begin) + 1))
    except zlib.error:
        return True
    return len(begin) <= size + _AFTER and (len(begin) >= size or not decoder.eof)


def read_members(window: Window, limits: Limits) -> Iterator[RawRecord]:
    """Yield the records of a file in which each record is a gzip member."""
    while head := window.peek(0, _BLOCK):
        if not head.strip(b"\0"):  # a file may be padded
            window.skip(len(head))
            continue
        start = window.start
        member = _inflate(window, limits)
        if member.fault == "damaged":
            window.skip(1 if window.start == start else 0)
            _skip_to_member(window)
        else:
            window.skip(member.used)
        yield from _records_of(member, start, limits)


def member_boundary(window: Window, limits: Limits) -> int:
    """Return the offset of the next gzip member with a record, or -1.

    What looks like a member inside of another one is not taken for a member: see `_CHAIN`.
    """
    while _skip_to_member(window):
        start = window.start
        while window.start - start < _CHAIN and window.peek(0, 1):
            member = _inflate(window, limits)
            if member.fault == "damaged" or not _VERSION.match(member.data):
                break
            window.skip(member.used)
        else:
            return start
        window.skip(1)
    return -1


def read_records(window: Window, limits: Limits) -> Iterator[RawRecord]:
    """Yield the records of one stream."""
    while head := window.peek(0, MAX_HEADER):
        start = window.start
        if newlines := len(head) - len(head.lstrip(b"\r\n")):
            window.skip(newlines)
            continue
        header = _HEADER.match(head)
        length = _content_length(header)
        end = (header.end() if header else 0) + length
        if length > limits.size:
            # What looks like a record in its block is a part of it: a page must not be able to add records.
            whole = window.advance(end) and _ends(window, 0)
            yield RawRecord(start, head, "too_large") if whole else _damaged(start, head, length)
        elif length >= 0 and _ends(window, end):
            yield RawRecord(start, window.peek(0, end))
            window.skip(end)
        else:
            yield _damaged(start, head, length)
            window.skip(1)
            window.skip_to(_NEXT)


def _ends(window: Window, end: int) -> bool:
    """Return whether a record ends at `end`: two line breaks follow, or another record, or nothing."""
    after = window.peek(end, _AFTER)
    return window.holds(end) and _BEHIND.match(after) is not None


def _damaged(start: int, head: bytes, length: int) -> RawRecord:
    detail = "no WARC header" if length < 0 else f"the record does not end after its Content-Length of {length}"
    return RawRecord(start, head, "damaged", detail)


def _content_length(header: re.Match[bytes] | None) -> int:
    """Return the length that a WARC header declares, or -1 if there is none, or another record begins in the header."""
    found = _LENGTH.search(header[0]) if header and not _NEXT.search(header[0], 1) else None
    return int(found[1]) if found else -1


class _Member(msgspec.Struct):
    """A gzip member.

    Attributes:
        data: its first bytes, decompressed.
        size: number of its bytes, decompressed.
        used: number of its compressed bytes from the window's start on.
        fault: "", "damaged" or "too_large".
        detail: what is damaged.
    """

    data: bytes
    size: int
    used: int
    fault: str = ""
    detail: str = ""


def _inflate(window: Window, limits: Limits) -> _Member:
    """Decompress the member at the window's start. Of a large one, the window advances over the compressed bytes."""
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    limit, data, size, used, total = limits.size + MAX_HEADER, bytearray(), 0, 0, 0
    while not decoder.eof:
        if not (piece := decoder.unconsumed_tail):
            if used > _RETAINED:
                window.skip(used)
                used = 0
            if not (piece := window.peek(used, _BLOCK)):
                return _Member(bytes(data), size, used, "damaged", "the gzip member is truncated")
            used, total = used + len(piece), total + len(piece)
        try:
            out = decoder.decompress(piece, _OUT)
        except zlib.error as error:
            return _Member(bytes(data), size, used, "damaged", f"the gzip member is corrupt: {error}")
        size += len(out)
        data += out[: max(0, limit - len(data))]
        if size > UNCHECKED_BYTES and size > limits.ratio * total:
            return _Member(bytes(data), size, used, "damaged", "the gzip member expands like a decompression bomb")
    used -= len(decoder.unused_data)
    return _Member(bytes(data), size, used, "too_large" if size > limit else "")


def _records_of(member: _Member, start: int, limits: Limits) -> Iterator[RawRecord]:
    if member.fault:
        yield RawRecord(start, member.data[:MAX_HEADER], member.fault, member.detail)
        return
    for record in read_records(Window(io.BytesIO(member.data)), limits):
        yield msgspec.structs.replace(record, start=start, inner=record.start)


def _skip_to_member(window: Window) -> bool:
    """Advance to what decompresses to the beginning of a record, at the window's start or after it."""
    while window.skip_to(_MEMBER):
        try:
            begin = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(window.peek(0, _BEGIN), _AFTER)
        except zlib.error:
            begin = b""
        if _VERSION.match(begin):
            return True
        window.skip(1)
    return False
