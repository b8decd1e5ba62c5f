"""The readers `csv` and `tsv`: quoting, shards, columns, encodings, and hostile files."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.build import build
from jprep.corpus.config import CorpusConfig, CorpusRecipe, Source
from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.delimited import CsvReader, TsvReader
from jprep.corpus.readers.quoted_records import read_chunks, split_quoted
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError, InputError
from jprep.testing.conformance.reader import ReaderSuite
from tests.conftest import digests
from tests.unit.corpus.test_readers_lines import made, put, read, texts

FIELD = st.text(st.sampled_from("あ亜a \",\n\r\t;'")).map(lambda text: text.replace("\r", ""))
ROWS = st.lists(st.lists(FIELD, min_size=2, max_size=2), max_size=12)


class TestCsvConforms(ReaderSuite):
    step = CsvReader
    options = {"shard_mb": 1e-5, "max_bad": 0.5}
    texts = ("一\n二", "三, 「四」", '"引用"')
    rejects = ("malformed_csv", "empty")

    def write(self, folder: Path) -> str:
        return put(folder, '\ufefftext,n\r\n"一\x1e\n二",1\r\n\r\n"三, 「四」",2\n短い\n"""引用""",3\n ,4', "t.csv")


class TestTsvConforms(ReaderSuite):
    step = TsvReader
    options = {"shard_mb": 1e-5, "header": False, "columns": ["n", "text"]}
    texts = ("一", '"二')
    rejects = ("empty",)

    def write(self, folder: Path) -> str:
        return put(folder, '1\t一\x1f\n2\t"二\r\n3\t\n', "t.tsv")


def table(rows: list[list[str]], ends: str = "\r\n") -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator=ends).writerows([["text", "n"], *rows])
    return out.getvalue()


@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.integers(1, 60), st.integers(1, 40))
def test_any_shard_size_gives_the_records_of_python(rows: list[list[str]], ends: str, size: int, block: int) -> None:
    data = table(rows, ends).encode()

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(block)

    found: list[list[str]] = []
    for chunk in read_chunks(Slow(data), "x", b'"', size, 10_000):
        assert data[chunk.start : chunk.start + len(chunk.data)] == chunk.data
        for offset, record in split_quoted(chunk, "x", b'"', 10_000):
            assert data[offset : offset + len(record)] == record
            found += csv.reader([record.decode()], strict=True)
    assert found == [["text", "n"], *rows]


@pytest.mark.parametrize("compressed", [False, True])
def test_shards_do_not_change_the_documents(compressed: bool, tmp_path: Path) -> None:
    rows = [[f"第{i}の\n「文, 書」" + '"' * (i % 3), str(i)] for i in range(50)]
    data = table(rows).encode()
    path = put(tmp_path, gzip.compress(data, mtime=0) if compressed else data, "t.csv")
    whole = read(CsvReader(), path)
    assert texts(whole) == [text for text, _ in rows]
    for shard_mb in (1e-6, 1e-4, 4e-4):
        reader = made(CsvReader, shard_mb=shard_mb)
        assert read(reader, path) == whole
        assert len(list(reader.shards(path))) > 2


def test_a_build_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    rows = [[f"これは{i}番目の文書です。\n二行目もあります。", str(i)] for i in range(40)]
    put(tmp_path, table(rows), "t.csv")
    put(tmp_path, "text\tn\n" + "".join(f"タブ区切りの{i}番目の文です。\t{i}\n" for i in range(40)), "t.tsv")
    sources = [
        Source(name=kind, paths=[str(tmp_path / f"t.{kind}")], reader={"use": kind, "shard_mb": 0.0005})
        for kind in ("csv", "tsv")
    ]
    recipe = CorpusRecipe(name="x", corpus=CorpusConfig(sources=sources, segmenter="none"))
    found = []
    for workers in (1, 3):
        with closing(Local(workers)) as executor:
            build(recipe, tmp_path / str(workers), executor, SilentProgress())
        found.append({name: value for name, value in digests(tmp_path / str(workers)).items() if ".state" not in name})
    assert found[0] == found[1]


def test_columns_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, "id;本文;題;page.url;x\n7;'a;''b';t;u;\n;c;;;2\n", "t.csv")
    options = {
        "separator": ";",
        "quote": "'",
        "text": "本文",
        "id": "id",
        "title": "題",
        "url": "page.url",
        "meta": ["x"],
    }
    assert read(made(CsvReader, **options), path) == [
        Document("src:7", "src", "t", "u", "a;'b"),
        Document("src:t.csv:40", "src", "", "", "c", meta={"x": "2"}),
    ]


def test_files_without_a_header(tmp_path: Path) -> None:
    path = put(tmp_path, "1,一\n2,二\n", "t.csv")
    for options in ({"text": "1"}, {"columns": ["n", "text"]}):
        assert texts(read(made(CsvReader, header=False, **options), path)) == ["一", "二"]
    with pytest.raises(ConfigError, match="both header and columns"):
        made(CsvReader, columns=["n", "text"])


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "shift_jis"])
def test_other_encodings(encoding: str, tmp_path: Path) -> None:
    rows = [["ソ表示\n「能」", "1"], ["あ,ぽ", "2"]]  # whose second bytes are those of ASCII characters
    path = put(tmp_path, table(rows).encode(encoding), "t.csv")
    assert texts(read(made(CsvReader, encoding=encoding, shard_mb=1e-6), path)) == [text for text, _ in rows]
    with pytest.raises(InputError, match=encoding.replace("_", "[_-]") if encoding == "euc_jp" else "not valid"):
        read(CsvReader(), path)


@pytest.mark.parametrize(
    ("encoding", "fix"),
    [
        ("cp932", 'it looks like cp932: convert it (iconv -f cp932 -t utf-8) or set `encoding = "cp932"`'),
        ("euc_jp", 'it looks like euc-jp: convert it (iconv -f euc-jp -t utf-8) or set `encoding = "euc_jp"`'),
        ("utf-16", "it looks like utf-16: convert it (iconv -f utf-16 -t utf-8)"),
    ],
)
def test_a_header_in_another_encoding_names_it(encoding: str, fix: str, tmp_path: Path) -> None:
    path = put(tmp_path, ("質問,text\n" + "桜,これは、かなの多い文です。\n" * 9).encode(encoding), "t.csv")
    with pytest.raises(InputError, match="is not valid utf-8") as refused:
        read(CsvReader(), path)
    assert refused.value.fix == fix


def test_a_quotation_mark_that_is_part_of_other_characters_is_refused(tmp_path: Path) -> None:
    for encoding in ("cp932", "shift_jis"):
        with pytest.raises(ConfigError, match="cannot be used in"):
            made(CsvReader, encoding=encoding, quote="|")
    path = put(tmp_path, "text\n'ポ,'\n".encode("cp932"), "t.csv")
    assert texts(read(made(CsvReader, encoding="cp932", quote="'"), path)) == ["ポ,"]


def test_errors_name_the_option(tmp_path: Path) -> None:
    path = put(tmp_path, "texts,n\na,1\n", "t.csv")
    with pytest.raises(ConfigError, match=r"(?s)column 'text' not found.*did you mean 'texts'"):
        read(CsvReader(), path)
    with pytest.raises(ConfigError, match=r"(?s)column 'm' not found.*`meta = ...`: available: n, texts"):
        read(made(CsvReader, text="texts", meta=["m"]), path)
    with pytest.raises(ConfigError, match="two columns are called 'text'"):
        read(CsvReader(), put(tmp_path, "text,text\na,1\n", "twice.csv"))
    with pytest.raises(InputError, match="found 1 fields, expected 2"):
        read(CsvReader(), put(tmp_path, "text,n\na\n", "short.csv"))
    for options in ({"separator": ",,"}, {"separator": "、"}, {"quote": ","}, {"separator": "\n"}, {"quote": "\n"}):
        with pytest.raises(ConfigError, match="must be one ASCII character"):
            made(CsvReader, **options)


def test_another_separator_is_named(tmp_path: Path) -> None:
    for found, mark in ((";", ";"), ("\t", r"\t")):
        path = put(tmp_path, f"id{found}text\n1{found}一\n", "t.csv")
        with pytest.raises(ConfigError, match="one column found") as refused:
            read(CsvReader(), path)
        assert refused.value.fix == f'set `separator = "{mark}"`'
        assert texts(read(made(CsvReader, separator=found), path)) == ["一"]
    with pytest.raises(ConfigError, match="its separator is ','") as refused:
        read(TsvReader(), put(tmp_path, "id,text\n1,一\n", "t.tsv"))
    assert refused.value.fix == f'read the file as CSV: --csv {tmp_path}/t.tsv, in a recipe reader = {{ use = "csv" }}'
    assert texts(read(made(CsvReader, text="a;b"), put(tmp_path, "a;b\n一\n", "own.csv"))) == ["一"]
    with pytest.raises(ConfigError, match="column 'text' not found"):
        read(CsvReader(), put(tmp_path, "a;b,c\n一,二\n", "two.csv"))


def test_empty_files_have_no_documents(tmp_path: Path) -> None:
    for number, data in enumerate(("", "\n\n", "text,n", "text,n\n", "\ufeff\ntext,n\n")):
        assert read(CsvReader(), put(tmp_path, data, f"{number}.csv")) == []
    path = put(tmp_path, "\ufeff\n\n\ntext,n\n一,1\n\n二,2\n", "blank.csv")
    for shard_mb in (1e-6, 1e-5, 1.0):
        assert texts(read(made(CsvReader, shard_mb=shard_mb), path)) == ["一", "二"]


def hostile() -> Iterator[tuple[str, bytes, str]]:
    yield "unclosed", b'text,n\n"a,1\nb,2\n' + b"c,3\n" * 50, "malformed_csv"
    yield "stray", b'text,n\n5" disk,1\nb,2\n', "malformed_csv"
    yield "after", b'text,n\n"a"b,1\n', "malformed_csv"
    yield "bytes", b"text,n\n\xff\xfe,1\n", "invalid_utf8"


@pytest.mark.parametrize(("name", "data", "reason"), [*hostile()])
def test_malformed_rows_are_errors_or_rejects(name: str, data: bytes, reason: str, tmp_path: Path) -> None:
    path = put(tmp_path, data, f"{name}.csv")
    with pytest.raises(InputError, match="byte 7"):
        read(CsvReader(), path)
    items: list[Any] = read(made(CsvReader, max_bad=1.0), path)
    assert [item.reason for item in items if isinstance(item, Reject)] == [reason]


def test_lines_that_a_stray_mark_joins_are_named_and_counted(tmp_path: Path) -> None:
    path = put(tmp_path, 'text,n\n5" disk,1\nb,2\n7" disk,3\nc,4\n', "stray.csv")
    with pytest.raises(InputError, match="in 3 lines: perhaps a quotation mark is not closed"):
        read(CsvReader(), path)
    reader = made(CsvReader, max_bad=0.5)
    assert texts([item for item in read(reader, path) if isinstance(item, Document)]) == ["c"]
    assert reader.tally == {"malformed.lines_joined": 2}


def test_a_row_over_the_limit_is_an_error(tmp_path: Path) -> None:
    for name, data in (("row", b"text,n\n" + b"a" * 3_000_000), ("quote", b'text,n\n"' + b"a\n" * 2_000_000)):
        with pytest.raises(InputError, match=r"(?s)a row is larger than 1 MB.*quote"):
            read(made(CsvReader, max_record_mb=1), put(tmp_path, data, f"{name}.csv"))
    kept = b"text,n\n" + b"x" * 900_000 + b",\x00\n" + b"," * 1000 + b"\n"
    assert len(texts(read(made(CsvReader, max_record_mb=1, max_bad=0.9), put(tmp_path, kept, "kept.csv")))) == 1
