"""Searches find what a plain filter over the documents finds, in the same order, however they are paged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from jprep.corpus.api import Corpus
from jprep.corpus.document import Document, Reject
from jprep.corpus.store import read_manifest, write_manifest
from jprep.engine.stage import Output
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256
from jprep.view.files import CorpusFiles
from jprep.view.query import CHARACTERS, Query, Range, parse_query, split_terms
from jprep.view.search import Searches, read_hits
from tests.unit.view.conftest import document, write_corpus

ALPHABET = "あいA\"%_\\'\x00。\n"
SOURCES = ("one", "two:", "'three")
TERMS = st.text(st.sampled_from(ALPHABET.replace('"', "").replace("\n", "")), min_size=1, max_size=3)


def some_text(random: Random, most: int) -> str:
    return "".join(random.choices(ALPHABET, k=random.randint(1, most))).strip("\n") or "あ"


@pytest.fixture(scope="module")
def random_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = Random(0)
    documents = [
        document(number, some_text(random, 4), some_text(random, 30), source=random.choice(SOURCES))
        for number in range(150)
    ]
    rejects = [
        Reject(
            f"a:b:{number}", some_text(random, 4), random.choice(["filter.a", "filter.b/c"]), "x", some_text(random, 9)
        )
        for number in range(60)
    ]
    return write_corpus(
        tmp_path_factory.mktemp("r") / "[c]*?", [documents[:20], documents[20:21], documents[21:]], rejects
    )


@pytest.fixture(scope="module")
def files(random_corpus: Path) -> Iterator[CorpusFiles]:
    opened = CorpusFiles(random_corpus, read_manifest(random_corpus))
    yield opened
    opened.close()


def matches(item: Document | Reject, query: Query) -> bool:
    """Whether an item is to be found, in other words than the search's own."""
    body = item.text if isinstance(item, Document) else item.excerpt
    limits = query.ranges.get(CHARACTERS, Range())
    low, high = (-math.inf if limits.low is None else limits.low), (math.inf if limits.high is None else limits.high)
    return (
        all(term in body or term in item.title for term in query.terms)
        and (not query.id or query.id in (item.id, item.id.partition(":")[2]))
        and (isinstance(item, Reject) or query.source in ("", item.source))
        and (isinstance(item, Document) or query.reason in ("", f"{item.step}/{item.reason}"))
        and low <= len(body) <= high
    )


def found_ids(files: CorpusFiles, query: Query, size: int) -> list[str]:
    """The ids of all hits, read page by page."""
    search, start, ids = Searches(files).of(query), 0, list[str]()
    while True:
        found = search.page(start, start + size, start + size, 60)
        ids += [hit.id for hit in read_hits(files, query, found.positions)]
        if not found.positions:
            assert found.finished and found.total == len(ids)
            return ids
        start += size


@given(
    st.lists(TERMS, max_size=3), st.sampled_from(["", "", *SOURCES]),
    st.sampled_from(["", "", "source:3", "3", "source:"]),
    st.integers(0, 30) | st.none(), st.integers(0, 30) | st.none(), st.sampled_from([1, 7, 1000]),
)  # fmt: skip
def test_documents_are_those_of_a_plain_filter(
    random_corpus: Path, files: CorpusFiles, terms: list[str], source: str, id: str, low: int | None, high: int | None,
    size: int,
) -> None:  # fmt: skip
    words = " ".join(f'"{term}"' for term in terms)
    query = Query(words=words, source=source, id=id, ranges={CHARACTERS: Range(low, high)})
    assert query.terms == terms
    assert found_ids(files, query, size) == [item.id for item in Corpus(random_corpus) if matches(item, query)]


@given(
    st.lists(TERMS, max_size=2),
    st.sampled_from(["", "filter.a/x", "filter.b/c/x", "filter.a/y"]),
    st.sampled_from(["", "b:7", "a:b:7", "7"]),
)
def test_rejects_are_those_of_a_plain_filter(
    random_corpus: Path, files: CorpusFiles, terms: list[str], reason: str, id: str
) -> None:
    query = Query(kind="rejects", words=" ".join(f'"{term}"' for term in terms), reason=reason, id=id)
    expected = [item.id for item in Corpus(random_corpus).rejects() if matches(item, query)]
    assert found_ids(files, query, 7) == expected


def test_pages_need_not_be_read_in_order(random_corpus: Path, files: CorpusFiles) -> None:
    query = Query(words="あ")
    expected = [item.id for item in Corpus(random_corpus) if matches(item, query)]
    search = Searches(files).of(query)
    for start in (40, 0, 80, 20):
        positions = search.page(start, start + 20, 0, 60).positions
        assert [hit.id for hit in read_hits(files, query, positions)] == expected[start : start + 20]


def test_a_search_stops_in_time_and_continues(files: CorpusFiles) -> None:
    search = Searches(files).of(Query(words="あ"))
    first, second, third = (search.page(0, 1000, 1000, 0) for _ in range(3))
    assert (first.searched, second.searched, third.searched) == (1, 2, 3)
    assert not first.finished and third.finished
    assert first.positions == third.positions[: len(first.positions)]


def test_a_search_is_kept(files: CorpusFiles) -> None:
    searches = Searches(files)
    kept = searches.of(Query(words="あ"))
    assert searches.of(Query(words="あ")) is kept and searches.of(Query(words="い")) is not kept
    for number in range(20):
        searches.of(Query(id=str(number)))
    assert searches.of(Query(words="あ")) is not kept


def test_further_columns_become_filters(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "c", [[document(number, f"題{number}", "本文") for number in range(4)]])
    manifest = read_manifest(folder)
    path = folder / manifest.parts[0].path
    table = pq.read_table(path)
    extra = {
        'sc"ore': pa.array([0.1, 0.5, None, 2.0]),
        "lang": pa.array(["ja", "en", "ja", None]),
        "ok": pa.array([True] * 4),
    }
    for name, values in extra.items():
        table = table.append_column(name, values)
    pq.write_table(table, path)
    changed = Output(manifest.parts[0].path, 4, file_sha256(path))
    files = CorpusFiles(folder, msgspec.structs.replace(manifest, parts=[changed]))
    columns = files.extra_columns()
    assert (columns.numbers, columns.texts) == (['sc"ore'], ["lang", "ok"])
    query = parse_query("documents", {'min.sc"ore': "0.1", "is.lang": "ja", "is.ok": "true"}, *columns)
    assert found_ids(files, query, 10) == ["source:0"]
    assert found_ids(files, parse_query("documents", {'max.sc"ore': "1"}, *columns), 10) == ["source:0", "source:1"]


def signal_corpus(folder: Path) -> Path:
    measured = [{"kana_share": 0.25, "quality": 0.5}, {"kana_share": 0.7, "quality": math.nan}]
    documents = [document(number, "題", "本文") for number in range(2)]
    for each, signals in zip(documents, measured, strict=True):
        each.signals = signals
    made = write_corpus(folder, [documents])
    manifest = read_manifest(made)
    described = manifest.made_from["documents"] | {"signals": [{"columns": ["kana_share", "quality"]}]}
    write_manifest(made, msgspec.structs.replace(manifest, made_from={"documents": described}))
    return made


def test_signals_become_filters(tmp_path: Path) -> None:
    folder = signal_corpus(tmp_path / "c")
    files = CorpusFiles(folder, read_manifest(folder))
    columns = files.extra_columns()
    assert columns.numbers == ["signals.kana_share", "signals.quality"]
    for parameters, expected in (
        ({"min.signals.kana_share": "0.5"}, ["source:1"]),
        ({"min.signals.quality": "0.1"}, ["source:0"]),  # no limit holds for a signal that does not apply
        ({"max.signals.quality": "0.9"}, ["source:0"]),
        ({"max.signals.quality": "1e99"}, ["source:0"]),
        ({"min.signals.kana_share": "0.7"}, ["source:1"]),  # 0.7 is less in 32 bits than in 64
    ):
        assert found_ids(files, parse_query("documents", parameters, *columns), 10) == expected


def test_signals_are_shown(tmp_path: Path, open_client: Callable[..., TestClient]) -> None:
    client = open_client(signal_corpus(tmp_path / "c"))
    page = client.get("/?min.signals.kana_share=0.5").text
    assert "<details open>" in page and "Kana share" in page
    assert re.search("<dt>kana_share</dt><dd>0.7</dd>", client.get("/documents/0/1").text)


@given(st.text(), st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.none())
def test_a_query_survives_its_address(words: str, id: str, source: str, low: float | None) -> None:
    from urllib.parse import parse_qsl

    words = " ".join(words.split()[:5])
    parameters = {"q": words, "id": id.strip(), "source": source, "min.characters": "" if low is None else repr(low)}
    query = parse_query("documents", parameters, [CHARACTERS], [])
    assert parse_query("documents", dict(parse_qsl(query.parameters())), [CHARACTERS], []) == query


@pytest.mark.parametrize("limit", ["abc", "nan", "inf", "1e999", "１２x"])
def test_a_limit_has_to_be_a_number(limit: str) -> None:
    with pytest.raises(ConfigError, match="expected a number"):
        parse_query("documents", {"max.characters": limit}, [CHARACTERS], [])


def test_terms() -> None:
    assert split_terms('東京\u3000大阪 "a b" "open') == ["東京", "大阪", "a b", '"open']
