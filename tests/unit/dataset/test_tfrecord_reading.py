"""Shards are read back as they were written, from any row on, and damage is found."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.exports.tfrecord.reading import Shard, decode_varints, find_shards, parse_example, read_rows
from jprep.dataset.exports.tfrecord.wire import examples, frame_records, varints
from jprep.errors import ConfigError, InputError


def shard(numbers: range) -> bytes:
    features = {
        "input_ids": np.array([[number, 300, -100] for number in numbers]),
        "weights": np.ones((len(numbers), 2)),
    }
    return frame_records(list(examples(features)))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "train-00000-of-00002-3.tfrecord").write_bytes(shard(range(3)))
    (tmp_path / "train-00001-of-00002-2.tfrecord").write_bytes(shard(range(3, 5)))
    return tmp_path


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_varints_are_decoded_to_the_same_integers(numbers: list[int]) -> None:
    data, _ = varints(np.array(numbers, np.int64), np.array([0, len(numbers)]))
    assert decode_varints(data).tolist() == numbers


@pytest.mark.parametrize("first", [0, 2, 3, 4, 5, 11])
def test_rows_are_read_from_any_row_on_and_then_again(rows: Path, first: int) -> None:
    shards = find_shards([str(rows / "train-*.tfrecord")])
    assert [each.rows for each in shards] == [3, 2]
    found = [int(row["input_ids"][0]) for row in islice(read_rows(shards, first), 12)]
    assert found == [(first + number) % 5 for number in range(12)]


def test_features_have_their_values_and_types(rows: Path) -> None:
    row = next(read_rows(find_shards([str(rows / "*.tfrecord")])))
    assert row["input_ids"].tolist() == [0, 300, -100] and row["weights"].dtype == np.float32


def test_shards_without_a_count_in_their_name_are_counted(rows: Path) -> None:
    other = rows / "other.tfrecord"
    other.write_bytes(shard(range(7)))
    assert find_shards([str(other)]) == [Shard(str(other), 7)]


def test_shards_are_read_from_a_url() -> None:
    with fsspec.open("memory://rows/train-00000-of-00001-4.tfrecord", "wb") as file:
        file.write(shard(range(4)))
    shards = find_shards(["memory://rows/train-*.tfrecord"])
    assert [int(row["input_ids"][0]) for row in islice(read_rows(shards, 2), 3)] == [2, 3, 0]


@pytest.mark.parametrize("damage", [5, 30, -3])
def test_a_damaged_record_is_found(rows: Path, damage: int) -> None:
    path = rows / "train-00000-of-00002-3.tfrecord"
    data = bytearray(path.read_bytes())
    data[damage] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        list(islice(read_rows(find_shards([str(path)])), 3))


def test_a_cut_off_file_is_found(rows: Path) -> None:
    path = rows / "train-00000-of-00002-3.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="record 2"):
        list(islice(read_rows(find_shards([str(path)])), 3))


@pytest.mark.parametrize("rows_in_file", [0, 2, 4])
def test_another_number_of_rows_than_the_name_says_is_found(rows: Path, rows_in_file: int) -> None:
    path = rows / "train-00000-of-00002-3.tfrecord"
    path.write_bytes(shard(range(rows_in_file)) if rows_in_file else b"")
    with pytest.raises(InputError, match=f"{rows_in_file} records instead of 3"):
        list(islice(read_rows(find_shards([str(path)])), 5))


def test_files_without_rows_are_refused(rows: Path) -> None:
    (rows / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(ConfigError, match="have no rows"):
        find_shards([str(rows / "empty.tfrecord")])


def test_a_pattern_without_files_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such TFRecord"):
        find_shards([str(tmp_path / "nothing-*.tfrecord")])


def test_unknown_fields_do_not_matter() -> None:
    assert parse_example(b"") == {}
