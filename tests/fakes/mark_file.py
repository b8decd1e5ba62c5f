"""An independent implementation of the `.marks` format of `jprep.dataset.manifest`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

import zstandard


def written(marks: Sequence[int], block: int = 8) -> bytes:
    """Return the file of some marks. Smaller blocks give more of them."""
    frames = []
    for start in range(0, len(marks), block):
        data = bytearray(-(-len(marks[start : start + block]) // 4))
        for number, mark in enumerate(marks[start : start + block]):
            data[number // 4] |= int(mark) << 2 * (number % 4)
        frames.append(zstandard.ZstdCompressor().compress(bytes(data)))
    places = [16]
    for frame in frames:
        places.append(places[-1] + len(frame))
    head = b"JPMARKS\0" + struct.pack("<II", 1, block)
    return head + b"".join(frames) + struct.pack(f"<{len(places)}QQ", *places, len(marks))


def read(data: bytes) -> list[int]:
    """Return the marks of a file."""
    magic, version, block = struct.unpack_from("<8sII", data)
    (tokens,) = struct.unpack_from("<Q", data, len(data) - 8)
    count = -(-tokens // block)
    places = struct.unpack_from(f"<{count + 1}Q", data, len(data) - 8 * (count + 2))
    assert (magic, version, places[0], places[-1]) == (b"JPMARKS\0", 1, 16, len(data) - 8 * (count + 2))
    marks: list[int] = []
    for number, (first, last) in enumerate(pairwise(places)):
        held = min(block, tokens - number * block)
        packed = zstandard.ZstdDecompressor().decompress(data[first:last], max_output_size=block)
        assert len(packed) == -(-held // 4)
        marks += [packed[token // 4] >> 2 * (token % 4) & 3 for token in range(held)]
    return marks
