"""Parts of compressed files that decode independently: xz blocks, BGZF members, Zstandard frames of known sizes.

Such a part is a segment. bzip2 has its own way, see `bzip2_blocks`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from jprep.io.inputs import codecs
from jprep.io.inputs.limits import MAX_RATIO, BombGuard
from jprep.io.inputs.raw import DecompressedInput, RawInput
from jprep.io.inputs.streams import open_raw
from jprep.io.inputs.xz_blocks import XzBlockInput, list_blocks

SegmentInput = XzBlockInput | DecompressedInput
"""A stream with the attribute `segment`: the stored offset of the segment that the bytes read last come from."""

DIVIDE = {
    "xz": "recompress it with `xz -T0 --block-size=16MiB`",
    "gzip": "recompress it with `bgzip` (of htslib)",
    "zstd": "recompress it with `pzstd`",
}
"""The command that makes a file of several segments, by compression."""

_GZIP = b"\x1f\x8b\x08\x04"  # a member with an extra field
_LONGEST_MEMBER = 1 << 16  # of BGZF
_ZSTD = b"\x28\xb5\x2f\xfd"
_PZSTD = b"\x50\x2a\x4d\x18\x04\0\0\0"  # a skippable frame whose four bytes are the size of the frame after it
_SEEKABLE, _SEEK_TABLE = b"\xb1\xea\x92\x8f", b"\x5e\x2a\x4d\x18"
_SEEK_FOOTER = 9
_MOST_FRAMES = 1 << 22


def segment_starts(path: str, step: int) -> list[int]:
    """Return stored offsets at which segments of a compressed, seekable file begin.

    Args:
        path: path or URL.
        step: least number of bytes between two of them.

    Returns:
        The offsets, beginning with that of the first segment; fewer than two if the file cannot be divided.

    Raises:
        ConfigError, MachineError: see `open_raw`.
    """
    with open_raw(path) as file:
        find = _FINDERS.get(codecs.detect_compression(file.peek(codecs.HEAD_BYTES)[: codecs.HEAD_BYTES]))
        return list(find(file, step)) if find and file.seekable() else []


def open_segments(path: str, start: int, max_ratio: float = MAX_RATIO) -> SegmentInput:
    """Open a compressed file at a segment; it is read to the end of the file.

    Args:
        path: path or URL.
        start: stored offset of the segment.
        max_ratio: maximum expansion from there on, see `jprep.io.inputs.limits`.

    Raises:
        ConfigError, MachineError: see `open_raw`.
    """
    guard, source = BombGuard(path, max_ratio), RawInput(path)
    kind = codecs.detect_compression(source.head())
    if kind == "xz":
        with open_raw(path) as file:
            blocks = [block for block in list_blocks(file) if block.start >= start]
        return XzBlockInput(source, blocks, guard)
    source.seek(start)
    return DecompressedInput(source, kind, guard)


def _xz_starts(file: BinaryIO, step: int) -> Iterator[int]:
    return _apart((block.start for block in list_blocks(file)), step)


def _gzip_starts(file: BinaryIO, step: int) -> Iterator[int]:
    """Yield the first member at or after each multiple of the step; nothing unless the file is BGZF."""
    size = file.seek(0, io.SEEK_END)
    at = _find_member(file, 0, size)
    while at is not None and (at or _member_size(_read(file, 0, _LONGEST_MEMBER), 0)):
        yield at
        at = _find_member(file, at + step, size)


def _find_member(file: BinaryIO, at: int, size: int) -> int | None:
    """Return the first BGZF member at or after an offset: two more members, or the end of the file, have to follow."""
    data = _read(file, at, 5 * _LONGEST_MEMBER)
    found = data.find(_GZIP)
    while found != -1 and found < _LONGEST_MEMBER:
        if _is_chain(data, found, size - at):
            return at + found
        found = data.find(_GZIP, found + 1)
    return None


def _is_chain(data: bytes, at: int, end: int) -> bool:
    for _ in range(3):
        length = _member_size(data, at)
        if not length:
            return False
        at += length
        if at >= end:
            return at == end
    return True


def _member_size(data: bytes, at: int) -> int:
    """Return the size of a BGZF member, from its extra field; 0 if it is another gzip member."""
    if data[at : at + 4] != _GZIP:
        return 0
    field, end = at + 12, at + 12 + int.from_bytes(data[at + 10 : at + 12], "little")
    while field + 4 <= end:
        length = int.from_bytes(data[field + 2 : field + 4], "little")
        if data[field : field + 4] == b"BC\x02\0":
            return int.from_bytes(data[field + 4 : field + 6], "little") + 1
        field += 4 + length
    return 0


def _zstd_starts(file: BinaryIO, step: int) -> Iterator[int]:
    starts = _seek_table(file) or list(_pzstd_frames(file))
    return _apart(starts, step)


def _pzstd_frames(file: BinaryIO) -> Iterator[int]:
    """Yield the frames of pzstd; nothing if one of them is not where the one before it says."""
    size, at, starts = file.seek(0, io.SEEK_END), 0, list[int]()
    while at < size and len(starts) < _MOST_FRAMES:
        head = _read(file, at, 16)
        if head[:8] != _PZSTD or head[12:] != _ZSTD:
            return
        starts.append(at + 12)
        at += 12 + int.from_bytes(head[8:12], "little")
    yield from starts if at == size else ()


def _seek_table(file: BinaryIO) -> list[int]:
    """Return the frames that the table at the end of Zstandard's seekable format names; none without such a table."""
    size = file.seek(0, io.SEEK_END)
    footer = _read(file, max(0, size - _SEEK_FOOTER), _SEEK_FOOTER)
    count, entry = int.from_bytes(footer[:4], "little"), 12 if footer[4:5] >= b"\x80" else 8
    begin = size - _SEEK_FOOTER - count * entry - 8
    if footer[5:] != _SEEKABLE or begin < 0 or count > _MOST_FRAMES or _read(file, begin, 4) != _SEEK_TABLE:
        return []
    table, starts, at = _read(file, begin + 8, count * entry), list[int](), 0
    for number in range(count):
        starts.append(at)
        at += int.from_bytes(table[number * entry : number * entry + 4], "little")
    return starts if at == begin else []


def _apart(starts: Iterator[int] | list[int], step: int) -> Iterator[int]:
    """Yield the first offset, and each that is `step` or more after the last one."""
    last = None
    for start in starts:
        if last is None or start - last >= step:
            yield start
            last = start


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


_FINDERS: dict[str, Callable[[BinaryIO, int], Iterator[int]]] = {
    "xz": _xz_starts,
    "gzip": _gzip_starts,
    "zstd": _zstd_starts,
}
