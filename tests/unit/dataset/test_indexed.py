"""The files of a split: byte for byte what Megatron-core reads, and marks beside them."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.indexed.bit_packing import BitPacker, unpack_marks
from jprep.dataset.indexed.split import IndexedSplit, dtype_of, write_index
from jprep.errors import MismatchError
from tests.fakes.mark_file import written

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=30)
DTYPES = {"uint16": ("<H", 8, 60_000), "int32": ("<i", 4, 70_000)}


def write(folder: Path, lengths: list[int], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Write a split; give its tokens and marks."""
    chance = np.random.default_rng(sum(lengths))
    tokens = chance.integers(0, DTYPES[dtype][2], sum(lengths)).astype(dtype)
    marks = chance.integers(0, 4, len(tokens)).astype(np.uint8)
    (folder / "s.bin").write_bytes(tokens.tobytes())
    (folder / "s.marks").write_bytes(written(marks.tolist()))
    with (folder / "s.idx").open("wb") as file:
        half = len(lengths) // 2
        blocks = [np.array(part, np.int32) for part in (lengths[:half], lengths[half:])]
        write_index(file, dtype, len(lengths), lambda: blocks)
    return tokens, marks


def by_hand(lengths: list[int], dtype: str) -> bytes:
    """The index as Megatron-core's source says it: written with `struct`, one number after the other."""
    code, number, _ = DTYPES[dtype]
    size = struct.calcsize(code)
    pointers = [size * sum(lengths[:before]) for before in range(len(lengths))]
    return b"".join(
        [
            b"MMIDIDX\x00\x00",
            struct.pack("<Q", 1),
            struct.pack("<B", number),
            struct.pack("<Q", len(lengths)),
            struct.pack("<Q", len(lengths) + 1),
            *(struct.pack("<i", length) for length in lengths),
            *(struct.pack("<q", pointer) for pointer in pointers),
            *(struct.pack("<q", document) for document in range(len(lengths) + 1)),
        ]
    )


@given(LENGTHS, st.sampled_from(sorted(DTYPES)))
def test_the_index_is_megatron_s_byte_for_byte(lengths: list[int], dtype: str) -> None:
    file = io.BytesIO()
    write_index(file, dtype, len(lengths), lambda: [np.array([length]) for length in lengths])
    assert file.getvalue() == by_hand(lengths, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [[1], [3, 1, 4, 1, 5, 9, 2, 6], [4] * 8])
def test_what_was_written_is_read(lengths: list[int], dtype: str, tmp_path: Path) -> None:
    tokens, marks = write(tmp_path, lengths, dtype)
    split = pickle.loads(pickle.dumps(IndexedSplit(tmp_path / "s", dtype)))
    ends = np.cumsum(lengths)
    assert len(split) == len(lengths) and split.tokens.dtype == dtype
    assert [sequence.tolist() for sequence in split] == [part.tolist() for part in np.split(tokens, ends[:-1])]
    assert split[-1].tolist() == split[len(lengths) - 1].tolist()
    assert split.offsets.tolist() == [0, *ends.tolist()]
    assert [split.sequence_at(token) for token in range(len(tokens))] == np.repeat(
        np.arange(len(lengths)), lengths
    ).tolist()
    for start in range(len(tokens) + 1):
        for stop in range(start, len(tokens) + 1):
            assert split.marks(start, stop).tolist() == marks[start:stop].tolist()
    for wrong in (-1, len(tokens)):
        with pytest.raises(IndexError):
            split.sequence_at(wrong)
    with pytest.raises(IndexError):
        split[len(lengths)]


@given(st.lists(st.lists(st.integers(0, 3), max_size=13), max_size=12))
def test_marks_are_joined_at_any_place(parts: list[list[int]]) -> None:
    file, flat = io.BytesIO(), [mark for part in parts for mark in part]
    packer = BitPacker(file)
    for part in parts:
        packer.add(np.array(part, np.uint8))
    packer.end()
    data = file.getvalue()
    assert len(data) == -(-len(flat) // 4)
    assert [data[token // 4] >> (2 * (token % 4)) & 3 for token in range(len(flat))] == flat
    assert unpack_marks(np.frombuffer(data, np.uint8), 0, len(flat)).tolist() == flat


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".marks"])
def test_a_file_that_is_cut_or_gone_is_told(suffix: str, tmp_path: Path) -> None:
    write(tmp_path, [5, 6, 7], "uint16")
    path = tmp_path / f"s{suffix}"
    whole = path.read_bytes()
    for data in (whole[:-1], whole + b"\0", whole[:3], b""):
        path.write_bytes(data)
        with pytest.raises(MismatchError, match=f"s{suffix}"):
            IndexedSplit(tmp_path / "s", "uint16")
    path.unlink()
    with pytest.raises(MismatchError, match="No such file"):
        IndexedSplit(tmp_path / "s", "uint16")


def test_an_index_of_other_tokens_is_told(tmp_path: Path) -> None:
    write(tmp_path, [5, 6], "uint16")
    with pytest.raises(MismatchError, match="no index of documents of int32"):
        IndexedSplit(tmp_path / "s", "int32")
    (tmp_path / "s.idx").write_bytes(b"TNTIDX\x00\x00" + bytes(80))
    with pytest.raises(MismatchError, match="no index of tokens"):
        IndexedSplit(tmp_path / "s", "uint16")


def test_two_bytes_hold_65536_ids() -> None:
    assert [dtype_of(size) for size in (2, 65_535, 65_536, 65_537)] == ["uint16", "uint16", "uint16", "int32"]
