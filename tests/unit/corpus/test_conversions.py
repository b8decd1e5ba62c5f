"""A corpus as Arrow table, pandas and polars frame and Hugging Face dataset: the same rows, the same buffers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep import Corpus
from jprep.corpus.document import Document, Reject
from jprep.corpus.interactive import tables
from jprep.corpus.store import read_manifest, write_manifest
from jprep.errors import ConfigError, DamagedError, MachineError
from jprep.io.atomic import file_sha256
from tests.conftest import ROOT
from tests.fakes.written_corpus import write_corpus

TEXTS = [
    "吾輩は猫である。名前はまだ無い。\n二行目の文はここにある。",
    "<script>alert(1)</script>と書く人がいる。",
    "\x1b[31m\u202eあ",
]
DOCS = [
    Document(f"own:{number}", "own", f"題{number}", "", TEXTS[number % 3] * (1 + number % 4), "", {"rev": str(number)})
    for number in range(10)
]
REJECTS = [Reject(f"own:{number}", "題", "filter.length", "too_short", "短い") for number in range(20, 23)]

documents = st.builds(
    Document,
    *[st.text(max_size=12)] * 6,
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Two shards with several row groups."""
    return Corpus(write_corpus(tmp_path / "corpus", [DOCS[:7], DOCS[7:]], REJECTS, group=3))


def as_documents(table: pa.Table) -> list[Document]:
    rows = table.to_pylist()
    return [Document(**row | {"meta": {pair["key"]: pair["value"] for pair in row["meta"]}}) for row in rows]


def addresses(column: pa.ChunkedArray) -> set[int]:
    """The addresses of all buffers of a column."""
    return {buffer.address for chunk in column.chunks for buffer in chunk.buffers() if buffer}


@given(shards=st.lists(st.lists(documents, max_size=4), max_size=3), group=st.integers(1, 3), size=st.integers(1, 5))
def test_tables_and_batches_have_the_documents(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[Document]], group: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("property")
    corpus = Corpus(write_corpus(folder / "corpus", shards, group=group))
    table, expected = corpus.to_arrow(), list(corpus)
    assert expected == [doc for shard in shards for doc in shard]
    assert as_documents(table) == expected
    assert corpus.to_arrow(file=folder / "mapped.arrow").equals(table, check_metadata=True)
    batches = list(corpus.batches(size))
    assert pa.Table.from_batches(batches, table.schema).equals(table)
    assert all(0 < batch.num_rows <= size for batch in batches)


def test_columns_have_the_order_asked_for(corpus: Corpus) -> None:
    table = corpus.to_arrow(["text", "id"])
    assert table.column_names == ["text", "id"]
    assert table["id"].to_pylist() == [doc.id for doc in DOCS]
    assert [batch.schema.names for batch in corpus.batches(4, ["meta", "id"])] == [["meta", "id"]] * 3
    assert table.schema.metadata[b"jprep.licences"] == b'{"own":"CC0"}'


def test_rejects_are_a_table_too(corpus: Corpus) -> None:
    assert [Reject(**row) for row in corpus.to_arrow(rejects=True).to_pylist()] == REJECTS
    assert next(corpus.batches(2, ["reason"], rejects=True)).to_pylist() == [{"reason": "too_short"}] * 2


@pytest.mark.parametrize("columns", [["titel"], "text", [], ["id", "id"]])
def test_wrong_columns_are_errors(corpus: Corpus, columns: Any) -> None:
    with pytest.raises(ConfigError):
        corpus.to_arrow(columns)


def test_an_unknown_column_is_answered_with_the_known_ones(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="no column 'reason'") as caught:
        corpus.to_arrow(["reason"])
    assert caught.value.fix.startswith("choose from: id, source, ")


def test_a_batch_has_rows(corpus: Corpus) -> None:
    with pytest.raises(ConfigError):
        next(corpus.batches(0))


def flip(corpus: Corpus) -> None:
    path = corpus.folder / corpus.manifest.parts[1].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


READS: list[Callable[[Corpus], Any]] = [Corpus.to_arrow, lambda corpus: list(corpus.batches(3))]


@pytest.mark.parametrize("read", READS)
def test_a_damaged_shard_is_an_error(corpus: Corpus, read: Callable[[Corpus], Any]) -> None:
    flip(corpus)
    with pytest.raises(DamagedError, match="was changed or damaged"):
        read(corpus)


def test_a_damaged_shard_leaves_no_arrow_file(corpus: Corpus, tmp_path: Path) -> None:
    flip(corpus)
    with pytest.raises(DamagedError):
        corpus.to_arrow(file=tmp_path / "mapped" / "corpus.arrow")
    assert not (tmp_path / "mapped").exists()


def test_only_arrow_files_are_replaced(corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "mapped.arrow"
    first = corpus.to_arrow(file=file)
    assert corpus.to_arrow(["id"], file=file)["id"].to_pylist() == first["id"].to_pylist()
    assert first["text"].to_pylist() == [doc.text for doc in DOCS]  # a table of the replaced file stays valid
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not an Arrow file"):
        corpus.to_arrow(file=tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_mapped_table_takes_no_memory_of_the_pool(corpus: Corpus, tmp_path: Path) -> None:
    table = corpus.to_arrow(file=tmp_path / "mapped.arrow")
    before = pa.total_allocated_bytes()
    again = pa.ipc.open_file(pa.memory_map(str(tmp_path / "mapped.arrow"))).read_all()
    assert pa.total_allocated_bytes() == before
    assert again.equals(table)


def test_format_1_has_the_same_table(corpus: Corpus) -> None:
    """In format 1, `meta` is a map."""
    expected = corpus.to_arrow()
    path = corpus.folder / corpus.manifest.parts[0].path
    table = pq.read_table(path)
    pairs = [[(pair["key"], pair["value"]) for pair in row] for row in table["meta"].to_pylist()]
    table = table.set_column(6, "meta", pa.array(pairs, pa.map_(pa.string(), pa.string())))
    pq.write_table(table, path)
    manifest = read_manifest(corpus.folder)
    part = msgspec.structs.replace(manifest.parts[0], sha256=file_sha256(path))
    write_manifest(corpus.folder, msgspec.structs.replace(manifest, format=1, parts=[part, *manifest.parts[1:]]))
    assert Corpus(corpus.folder).to_arrow().equals(expected)


@pytest.fixture
def table(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """The decoded table that the other conversions of the corpus begin with."""
    decoded = corpus.to_arrow()
    monkeypatch.setattr(tables, "arrow_table", lambda *_: decoded)
    return decoded


def test_pandas_shares_the_buffers(corpus: Corpus, table: pa.Table) -> None:
    pytest.importorskip("pandas")
    frame = corpus.to_pandas()
    assert frame["title"].tolist() == [doc.title for doc in DOCS]
    for name in table.column_names:
        assert addresses(pa.chunked_array(frame[name].array.__arrow_array__())) == addresses(table[name])


def test_polars_shares_the_text(corpus: Corpus, table: pa.Table) -> None:
    """Texts longer than 12 bytes are used in place, by an index of views that polars makes."""
    polars = pytest.importorskip("polars")
    frame = corpus.to_polars()
    assert frame["text"].to_list() == [doc.text for doc in DOCS]
    views = frame.to_arrow(compat_level=polars.CompatLevel.newest())
    assert {chunk.buffers()[2].address for chunk in table["text"].chunks} <= addresses(views["text"])


def test_datasets_shares_the_buffers(corpus: Corpus, table: pa.Table) -> None:
    pytest.importorskip("datasets")
    found = corpus.to_hugging_face()
    assert found["text"][:] == [doc.text for doc in DOCS]
    assert found.info.license == "CC0"
    assert all(addresses(found.data[name]) == addresses(table[name]) for name in table.column_names)


@pytest.mark.parametrize(
    ("library", "convert"),
    [("pandas", Corpus.to_pandas), ("polars", Corpus.to_polars), ("datasets", Corpus.to_hugging_face)],
)
def test_each_library_uses_a_mapped_file(
    corpus: Corpus, tmp_path: Path, library: str, convert: Callable[..., Any]
) -> None:
    pytest.importorskip(library)
    found = convert(corpus, ["text"], file=tmp_path / "mapped.arrow")
    assert list(found["text"]) == [doc.text for doc in DOCS]


def test_a_lazy_scan_reads_the_same(corpus: Corpus, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    lazy = corpus.scan_polars(["text", "id"])
    assert isinstance(lazy, polars.LazyFrame)
    assert lazy.collect().equals(corpus.to_polars(["text", "id"]))
    assert corpus.scan_polars(rejects=True).collect().equals(corpus.to_polars(rejects=True))
    empty = Corpus(write_corpus(tmp_path / "empty", []))
    assert empty.scan_polars(["id"]).collect().shape == (0, 1)
    flip(corpus)
    with pytest.raises(DamagedError):
        corpus.scan_polars()


def test_the_fingerprint_of_a_dataset_depends_on_the_corpus(corpus: Corpus) -> None:
    pytest.importorskip("datasets")
    first = corpus.to_hugging_face(["id"])._fingerprint
    assert first == Corpus(corpus.folder).to_hugging_face(["id"])._fingerprint
    assert first != corpus.to_hugging_face(["text"])._fingerprint


CONVERSIONS: list[tuple[str, Callable[[Corpus], Any]]] = [
    ("pandas", Corpus.to_pandas),
    ("polars", Corpus.to_polars),
    ("polars", Corpus.scan_polars),
    ("datasets", Corpus.to_hugging_face),
]


@pytest.mark.parametrize(("library", "convert"), CONVERSIONS)
def test_a_missing_library_is_named(
    corpus: Corpus, library: str, convert: Callable[[Corpus], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MachineError) as caught:
        convert(corpus)
    assert caught.value.fix == f"pip install {library}"


def test_the_documented_calls_work(corpus: Corpus) -> None:
    for library in ("pandas", "polars", "datasets"):
        pytest.importorskip(library)
    page = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")
    section = page.partition("## In Python libraries\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code.replace("work/jawiki/corpus", str(corpus.folder)), found)
    assert found["table"].num_rows == found["frame"].height == found["dataset"].num_rows == len(DOCS)
    assert len(found["rejects"]) == len(REJECTS)
