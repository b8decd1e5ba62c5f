"""The index of ids and titles: what it finds is what reading the whole corpus finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep import Corpus
from jprep.corpus.document import Document
from jprep.corpus.interactive import lookup
from jprep.corpus.store import read_rows_at
from jprep.errors import MachineError
from tests.fakes.small_corpus import build_corpus, posts

QUERIES = ["日記3", "捨てる0", "a:b", "b", "nothing", "x:", "3", "posts:99"]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus with kept and rejected documents, and an index of many segments and blocks."""
    monkeypatch.setattr(lookup, "_SEGMENT", 4)
    monkeypatch.setattr(lookup, "_BLOCK", 2)
    records = [
        *posts(),
        {"id": "a:b", "title": "b"} | {"text": posts()[1]["text"]},
        {"title": "3", "text": posts()[2]["text"]},
    ]
    return build_corpus(tmp_path, records)


def found(corpus: Corpus, query: str) -> list[tuple[str, int, str, str]]:
    return [(hit.part, hit.row, hit.item.id, hit.item.title) for hit in corpus.find(query)]


def scanned(corpus: Corpus, query: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str, str]]:
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "find_rows", lambda *_: None)
        return found(corpus, query)


def test_it_finds_what_a_scan_finds(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [item.id for item in (*corpus.documents(), *corpus.rejects())]
    own = [part for each in ids for part in (each, each.partition(":")[2], each.upper(), each.rpartition(":")[2])]
    expected = {query: scanned(corpus, query, monkeypatch) for query in ["", *QUERIES, *own]}
    assert sum(map(bool, expected.values())) > 2 * len(ids)
    assert {query: found(corpus, query) for query in expected} == expected


def test_later_searches_read_the_index_only(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = found(corpus, "日記3")
    (corpus.folder / corpus.manifest.reject_parts[0].path).unlink()  # nothing was found in it
    monkeypatch.setattr(lookup, "_write", pytest.fail)
    assert found(corpus, "日記3") == hits and found(corpus, "nothing") == []


@pytest.mark.parametrize("place", [0, 20, 70, -1, -9, -60])
def test_a_damaged_index_is_written_again(place: int, corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    hits, path = {query: found(corpus, query) for query in QUERIES}, corpus.folder / lookup.INDEX
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    assert {query: found(corpus, query) for query in QUERIES} == hits
    path.write_bytes(data[:7])
    assert {query: found(corpus, query) for query in QUERIES} == hits and "is written again" in caplog.text


def test_the_index_of_another_corpus_is_not_used(corpus: Corpus, tmp_path: Path) -> None:
    other = build_corpus(tmp_path / "other", [{"title": "別", "text": posts()[0]["text"]}])
    found(corpus, "1")
    (other.folder / lookup.INDEX).write_bytes((corpus.folder / lookup.INDEX).read_bytes())
    assert [title for *_, title in found(other, "別")] == ["別"]


def test_where_nothing_can_be_written_all_shards_are_read(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MachineError("no permission to write")

    monkeypatch.setattr(lookup, "_write", refuse)
    assert [title for *_, title in found(corpus, "日記3")] == ["日記3"]
    assert not (corpus.folder / lookup.INDEX).exists()


def test_rows_are_read_by_their_numbers(corpus: Corpus) -> None:
    part = corpus.manifest.parts[0]
    everything = list(corpus.documents())
    assert list(read_rows_at(corpus.folder, part, Document, [1, 3])) == [everything[1], everything[3]]
