"""Split a byte stream into records that end at a line feed outside quotation marks.

A line feed ends a record if the number of quotation marks before it, in the record, is even: as doubled marks inside
of a quoted field are, too. The rule needs nothing but the bytes from the beginning of a record, so any shard size gives
the same records. Neither byte is a part of another character: in cp932 and shift_jis, the mark has to be below 0x40.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from jprep.corpus.readers.chunking import Chunk
from jprep.errors import InputError, Setting

_BLOCK = 1 << 20


def read_chunks(stream: BinaryIO, path: str, quote: bytes, size: int, limit: int) -> Iterator[Chunk]:
    """Yield all records of a stream, in chunks of at least `size` bytes except the last one.

    Args:
        stream: the stream, at its beginning.
        path: its path, for errors.
        quote: the quotation mark, one byte; empty for none.
        size: minimum size of a chunk in bytes.
        limit: maximum size of a record in bytes.

    Raises:
        InputError: a record is larger than the limit.
    """
    data, start, seen, inside = bytearray(), 0, 0, False
    while block := stream.read(_BLOCK):
        data += block
        while len(data) >= size:
            skipped = max(seen, min(size - 1, len(data)))
            inside ^= _is_odd(data, quote, seen, skipped)
            end, inside = _next_end(data, quote, skipped, inside)
            if not end:
                seen = len(data)
                break
            yield Chunk(start, bytes(data[:end]))
            del data[:end]
            start, seen, inside = start + end, 0, False
        else:
            inside ^= _is_odd(data, quote, seen, len(data))
            seen = len(data)
        if len(data) > size + limit:
            raise row_too_large(path, start, limit)
    if data:
        yield Chunk(start, bytes(data))


def split_quoted(chunk: Chunk, path: str, quote: bytes, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each record of a chunk, including its line feed.

    Raises:
        InputError: a record is larger than the limit.
    """
    begin = at = 0
    inside = False
    while at < len(chunk.data):
        end = chunk.data.find(b"\n", at) + 1 or len(chunk.data)
        inside ^= _is_odd(chunk.data, quote, at, end)
        if end - begin > limit:
            raise row_too_large(path, chunk.start + begin, limit)
        if not inside or end == len(chunk.data):
            yield chunk.start + begin, chunk.data[begin:end]
            begin = end
        at = end


def row_too_large(path: str, offset: int, limit: int) -> InputError:
    """Return the error for a row over the limit."""
    fix = 'close its quotation marks, set `quote = ""` if the file has none, or raise `max_record_mb`'
    what, where = f"a row is larger than {limit / 1e6:g} MB", f"{path}, byte {offset}"
    return InputError(what, where=where, fix=fix, setting=Setting("max_record_mb"))


def _is_odd(data: bytes | bytearray, quote: bytes, start: int, end: int) -> bool:
    """Return whether a part has an odd number of quotation marks."""
    return bool(quote) and data.count(quote, start, end) % 2 == 1


def _next_end(data: bytearray, quote: bytes, at: int, inside: bool) -> tuple[int, bool]:
    """Return the end of the first record that ends after an offset, or 0; and whether the data ends inside quotes."""
    for found in re.finditer(b"[\n" + re.escape(quote) + b"]", memoryview(data)[at:]):
        if found[0] != b"\n":
            inside = not inside
        elif not inside:
            return at + found.end(), False
    return 0, inside
