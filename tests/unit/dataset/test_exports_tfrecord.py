"""TFRecord's checksums, varints, records and shards, read here without jprep's code."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.exports import export_dataset, read_export_manifest, row_reader
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.exports.tfrecord.wire import varints
from jprep.dataset.manifest import DatasetManifest
from jprep.io.wire.crc32c import crc32c, mask_checksums
from tests.fakes.example_message import read_example, read_varint
from tests.fakes.small_dataset import SPLITS, flat, lay_out, shards, tokenizer


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    tokenizer(tmp_path / "tokenizer")
    return lay_out(tmp_path / "dataset", SPLITS)


def slow_crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ 0x82F63B78 * (state & 1)
    return state ^ 0xFFFFFFFF


def test_crc32c_of_standard_examples() -> None:
    """The examples of RFC 3720, B.4, and the usual check value."""
    records = [bytes(32), b"\xff" * 32, bytes(range(32)), bytes(reversed(range(32))), b"123456789", b""]
    sums = crc32c(b"".join(records), [0, *accumulate(map(len, records))])
    assert sums.tolist() == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C, 0xE3069283, 0]
    assert mask_checksums(np.array([0xE3069283], np.uint32)).tolist() == [
        (0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8 & 0xFFFFFFFF
    ]


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_crc32c_of_any_records(data: bytes, cuts: list[int]) -> None:
    edges = sorted(min(cut, len(data)) for cut in [*cuts, 0, 300])
    assert crc32c(data, edges).tolist() == [slow_crc32c(data[start:stop]) for start, stop in pairwise(edges)]


@given(numbers=st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_varints_match_protobuf(numbers: list[int]) -> None:
    data, edges = varints(np.array(numbers, np.int32), np.arange(len(numbers) + 1))
    parts = [data[start:stop] for start, stop in pairwise(edges.tolist())]
    assert [read_varint(part, 0) for part in parts] == [
        (number, max(1, -(-number.bit_length() // 7))) for number in numbers
    ]


def read_examples(paths: Sequence[Path]) -> Iterator[list[int]]:
    for data in (path.read_bytes() for path in paths):
        while data:
            (size,) = struct.unpack_from("<Q", data)
            head, record = data[:8], data[12 : 12 + size]
            for part, place in ((head, 8), (record, 12 + size)):
                crc = slow_crc32c(part)
                assert struct.unpack_from("<I", data, place)[0] == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            [(name, ids)] = read_example(record).items()
            assert name == "input_ids"
            yield ids
            data = data[16 + size :]


def test_tfrecord_export_contains_documents(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_reader, "BLOCK", 50)
    out = tmp_path / "out"
    written = export_dataset(dataset, None, "tfrecord", out)
    assert [path.name for path in written] == [
        "train-00000-of-00001.tfrecord", "validation-00000-of-00001.tfrecord", "README.md", "export.json"
    ]  # fmt: skip
    for split, documents in SPLITS.items():
        assert list(read_examples(shards(out, f"{split}-*"))) == [flat(document) for document in documents]


def test_tfrecord_of_fixed_length_cuts_concatenated_documents(dataset: Path, tmp_path: Path) -> None:
    export_dataset(dataset, None, "tfrecord", tmp_path / "out", ExportOptions(length=16))
    stream = list(chain.from_iterable(map(flat, SPLITS["train"])))
    got = list(read_examples(shards(tmp_path / "out", "train-*")))
    assert got == [stream[at : at + 16] for at in range(0, len(stream) - 15, 16)]
    assert read_export_manifest(tmp_path / "out").splits[0].left_out == len(stream) % 16


@given(count=st.integers(1, 12), length=st.integers(0, 9), tokens=st.integers(1, 60))
def test_shards_are_balanced_and_complete(
    count: int, length: int, tokens: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = lay_out(tmp_path_factory.getbasetemp() / "shards", {"train": SPLITS["train"][:count]})
    about = msgspec.json.decode(folder.joinpath("dataset.json").read_bytes(), type=DatasetManifest)
    split = row_reader.RowReader(folder, about, about.splits[0], length)
    cuts = split.shards(tokens)
    assert [start for start, _ in cuts] == [0, *(stop for _, stop in cuts)][:-1] and cuts[-1][1] == len(split)
    longest = length or max(len(flat(document)) for document in SPLITS["train"][:count])
    for first, last in cuts:
        assert first < last
        assert sum(len(block.tokens) for block in split.blocks(first, last)) < tokens + longest
