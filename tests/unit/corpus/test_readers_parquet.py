"""The Parquet reader: columns by name, row groups as shards, damaged files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.parquet import ParquetReader
from jprep.errors import ConfigError, InputError
from jprep.testing.conformance.reader import ReaderSuite
from tests.unit.corpus.test_readers_lines import made, read, texts


def write(folder, columns, rows_a_group=2, name="t.parquet"):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, folder / name, row_group_size=rows_a_group)
    return str(folder / name)


def strings(*values):
    """Return a string column with arbitrary bytes."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


class TestParquetConforms(ReaderSuite):
    step = ParquetReader
    options = {"shard_mb": 1e-5}
    texts = ("一\n二", "三", "五")
    rejects = ("no_text", "empty")

    def write(self, folder):
        return write(folder, {"text": ["一\x1e\r\n二", "三", None, " ", "五"]})


def test_shards_are_row_groups_and_ids_are_rows(tmp_path):
    path = write(tmp_path, {"text": [f"文{i}" for i in range(9)]})
    small, large = made(ParquetReader, shard_mb=1e-6), ParquetReader()
    assert [(shard.start, shard.end) for shard in small.shards(path)] == [(i, i + 1) for i in range(5)]
    assert len(list(large.shards(path))) == 1
    assert read(small, path) == read(large, path)
    assert [doc.id for doc in read(small, path)] == [f"src:t.parquet:{i}" for i in range(9)]


def test_reads_columns_by_name(tmp_path):
    pages = [{"body": "本文", "id": 7, "x": "y"}, {"body": None, "id": 8, "x": "z"}]
    path = write(tmp_path, {"page": pages, "title": pa.array(["題", "題"]).dictionary_encode(), "n": [[1], [2]]})
    found = read(made(ParquetReader, text="page.body", id="page.id", title="title", meta=["n"]), path)
    assert found[0] == Document("src:7", "src", "題", "", "本文", meta={"n": "[1]"})
    assert found[1] == Reject("src:t.parquet:1", "", "reader.parquet", "no_text")


def test_a_column_may_have_dots_in_its_name(tmp_path):
    path = write(tmp_path, {"page.body": ["一", "二"], "page": [{"id": 7}, {"id": 8}]})
    found = read(made(ParquetReader, text="page.body", id="page.id"), path)
    assert [(doc.id, doc.text) for doc in found] == [("src:7", "一"), ("src:8", "二")]


def test_unknown_column_is_a_config_error(tmp_path):
    path = write(tmp_path, {"content": ["a"]})
    with pytest.raises(ConfigError, match=r"(?s)column 'contents' not found.*did you mean 'content'"):
        read(made(ParquetReader, text="contents"), path)
    with pytest.raises(ConfigError, match=r"column 'content.x' not found"):
        read(made(ParquetReader, text="content.x"), path)
    nested = write(tmp_path, {"text": ["a"], "page": [{"title": "t"}]})
    with pytest.raises(ConfigError, match=r"(?s)'page.titel' not found.*`title = ...`: did you mean 'page.title'"):
        read(made(ParquetReader, title="page.titel"), nested)


def test_invalid_utf8_within_the_budget_is_rejected(tmp_path):
    path = write(tmp_path, {"text": strings(b"a", b"b\xff")})
    with pytest.raises(InputError, match=r"(?s)0xff is not valid utf-8.*row 1"):
        read(ParquetReader(), path)
    found = read(made(ParquetReader, max_bad=0.5), path)
    assert texts(found) == ["a"]
    assert (found[1].reason, found[1].excerpt) == ("invalid_utf8", "b\\xff")


@pytest.mark.parametrize("damage", [lambda d: d[:-100], lambda d: b"", lambda d: b"no parquet at all" * 9])
def test_damaged_file_is_an_error(damage, tmp_path):
    path = tmp_path / "t.parquet"
    write(tmp_path, {"text": ["文" * 50] * 2000})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"(?s)damaged.*t.parquet"):
        read(ParquetReader(), str(path))


@pytest.mark.parametrize("rows_a_group", [1_000, 10_000])
def test_memory_does_not_grow_with_the_row_group(rows_a_group, tmp_path):
    path = write(tmp_path, {"text": [f"{i} " + "文" * 1000 for i in range(10_000)]}, rows_a_group)
    before = pa.default_memory_pool().bytes_allocated()
    peak = 0
    reader = ParquetReader()
    for shard in reader.shards(path):
        for _ in reader.read(shard, "src"):
            peak = max(peak, pa.default_memory_pool().bytes_allocated() - before)
    assert peak < 8 << 20  # of 30 MB


def test_damaged_row_group_is_an_error(tmp_path):
    path = write(tmp_path, {"text": [f"{i * 7919 % 10007} 行" for i in range(5000)]}, 1000)
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(300)
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        read(ParquetReader(), path)


def test_pipe_is_an_error():
    with pytest.raises(ConfigError, match="pipe"):
        list(ParquetReader().shards("-"))


def test_a_uri_is_read_through_fsspec(tmp_path):
    import fsspec

    write(tmp_path, {"text": ["遠く"]})
    with fsspec.open("memory://box/t.parquet", "wb") as file:
        file.write((tmp_path / "t.parquet").read_bytes())
    assert texts(read(ParquetReader(), "memory://box/t.parquet")) == ["遠く"]
