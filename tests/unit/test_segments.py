"""Compressed files of several segments: every segment is found, decodes on its own, and no damage is missed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
from pathlib import Path

import pytest

from jprep.errors import InputError
from jprep.io.inputs.bzip2_blocks import find_magics, next_block
from jprep.io.inputs.segments import open_segments, segment_starts
from jprep.io.inputs.streams import open_input
from jprep.io.inputs.xz_blocks import list_blocks
from tests.fakes import compressed

PARTS = [random.Random(number).randbytes(500).hex().encode() * (number % 4) for number in range(1, 10)]


def read(path: Path, start: int) -> bytes:
    with io.BufferedReader(open_segments(str(path), start)) as stream:
        return stream.read()


@pytest.mark.parametrize("name", compressed.FORMATS)
def test_every_segment_decodes_on_its_own(name: str, tmp_path: Path) -> None:
    (path := tmp_path / name).write_bytes(compressed.FORMATS[name](PARTS))
    starts = segment_starts(str(path), 1)
    rests = [b"".join(PARTS[number:]) for number in range(len(PARTS))]
    found = [read(path, start) for start in starts]
    assert list(dict.fromkeys(filter(None, found))) == list(dict.fromkeys(rests))
    with open_input(str(path)) as stream:
        assert stream.read() == rests[0]
    assert len(segment_starts(str(path), 1500)) < len(starts)


@pytest.mark.parametrize("data", [gzip.compress(PARTS[0]), lzma.compress(PARTS[0]), b"", b"\xfd7zXZ\0", b"text"])
def test_other_files_have_one_segment_at_most(data: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "x").write_bytes(data)
    assert len(segment_starts(str(path), 1)) < 2


def test_an_index_that_was_changed_is_not_believed() -> None:
    data = compressed.xz(PARTS)
    true = list_blocks(io.BytesIO(data))
    assert sum(block.size for block in true) == sum(map(len, PARTS))
    for position in range(true[-1].start + true[-1].unpadded + 4, len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        assert list_blocks(io.BytesIO(changed)) == []
    assert list_blocks(io.BytesIO(data[:-4])) == [] and list_blocks(io.BytesIO(data[40:])) == []


def test_sizes_that_the_blocks_do_not_have_are_found(tmp_path: Path) -> None:
    """The index of another file, whose blocks are stored in as many bytes."""
    data = bytearray(compressed.xz([b"a" * 1000, b"b" * 3000]))
    block = list_blocks(io.BytesIO(data))[1]
    data[block.start + 14] ^= 0x10
    (path := tmp_path / "a.xz").write_bytes(data)
    with pytest.raises(InputError, match=r"corrupt|truncated"):
        read(path, block.start)


def test_the_next_bzip2_block_is_the_one_that_a_search_from_the_start_finds() -> None:
    data = bz2.compress(random.Random(1).randbytes(300_000), 1) + bz2.compress(b"x" * 400_000, 1)
    blocks = [bit for bit, is_block in find_magics(io.BytesIO(data)) if is_block]
    assert len(blocks) > 4
    for bit in [0, *blocks, *(bit + 1 for bit in blocks), *range(0, len(data) * 8, 400_001)]:
        assert next_block(io.BytesIO(data), bit) == next((block for block in blocks if block >= bit), None)
