"""Write compressed files of several segments, as bgzip, pzstd and `xz --block-size` do."""

from __future__ import annotations

import io
import lzma
import struct
import zlib
from collections.abc import Callable, Sequence

import zstandard

from jprep.io.inputs.xz_blocks import list_blocks


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _crc(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


def xz(parts: Sequence[bytes]) -> bytes:
    """One stream with a block for each part that is not empty."""
    parts = [part for part in parts if part]
    if not parts:
        return lzma.compress(b"")
    streams = [lzma.compress(part, check=lzma.CHECK_CRC64, preset=0) for part in parts]
    found = [list_blocks(io.BytesIO(stream))[0] for stream in streams]
    stored = [stream[12 : 12 + (block.unpadded + 3) // 4 * 4] for stream, block in zip(streams, found, strict=True)]
    index = b"\0" + _number(len(found)) + b"".join(_number(block.unpadded) + _number(block.size) for block in found)
    index += bytes(-len(index) % 4)
    index += _crc(index)
    about = struct.pack("<I", len(index) // 4 - 1) + streams[0][6:8]
    return streams[0][:12] + b"".join(stored) + index + _crc(about) + about + b"YZ"


def xz_streams(parts: Sequence[bytes]) -> bytes:
    """A stream for each part, with padding between them."""
    return bytes(8).join(lzma.compress(part, preset=0) for part in parts) + bytes(4)


def bgzf(parts: Sequence[bytes]) -> bytes:
    """A gzip member that tells its size for each part, and the empty one that ends a file."""
    return b"".join(map(_member, [*parts, b""]))


def _member(part: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packer.compress(part) + packer.flush()
    extra = b"BC\x02\0" + struct.pack("<H", len(body) + 25)
    head = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff" + struct.pack("<H", len(extra)) + extra
    return head + body + struct.pack("<II", zlib.crc32(part), len(part))


def pzstd(parts: Sequence[bytes]) -> bytes:
    """A frame for each part, behind a skippable one that tells its size."""
    frames = map(zstandard.ZstdCompressor(level=1).compress, parts)
    return b"".join(b"\x50\x2a\x4d\x18" + struct.pack("<II", 4, len(frame)) + frame for frame in frames)


def seekable_zstd(parts: Sequence[bytes]) -> bytes:
    """A frame for each part, and a table of them at the end."""
    frames = list(map(zstandard.ZstdCompressor(level=1).compress, parts))
    table = b"".join(struct.pack("<II", len(frame), len(part)) for frame, part in zip(frames, parts, strict=True))
    table += struct.pack("<IB", len(parts), 0) + b"\xb1\xea\x92\x8f"
    return b"".join(frames) + b"\x5e\x2a\x4d\x18" + struct.pack("<I", len(table)) + table


FORMATS: dict[str, Callable[[Sequence[bytes]], bytes]] = {
    "txt.xz": xz,
    "streams.txt.xz": xz_streams,
    "txt.gz": bgzf,
    "txt.zst": pzstd,
    "seekable.txt.zst": seekable_zstd,
}
