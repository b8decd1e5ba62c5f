"""A corpus as a library sees it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jprep import Corpus
from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.corpus.recipe import load_recipe
from jprep.corpus.store import FORMAT, MANIFEST, read_manifest
from jprep.errors import ConfigError, DamagedError


def test_every_document_s_words_are_its_text(corpus: Path) -> None:
    for doc in Corpus(corpus):
        assert doc.words.translate(UNMARK) == doc.text
        assert doc.text and "\n\n" not in doc.text and doc.id.startswith(f"{doc.source}:")


def test_totals_are_what_the_files_hold(corpus: Path) -> None:
    opened = Corpus(corpus)
    docs, totals = list(opened), opened.manifest.totals
    words = [sentence for doc in docs for line in doc.words.split("\n") for sentence in line.split(SENTENCE)]
    assert len(opened) == len(docs) == totals["documents"] == sum(part.rows for part in opened.manifest.parts)
    assert totals["characters"] == sum(len(doc.text) for doc in docs)
    assert totals["bytes"] == sum(len(doc.text.encode()) for doc in docs)
    assert totals["sentences"] == len(words)
    assert totals["words"] == sum(sentence.count(WORD) + 1 for sentence in words)
    assert sum(opened.manifest.rejects.values()) == len(list(opened.rejects()))


def test_ids_are_unique(corpus: Path) -> None:
    items = [*Corpus(corpus), *Corpus(corpus).rejects()]
    assert len({item.id for item in items}) == len(items)


def test_the_manifest_says_what_it_is_made_of(corpus: Path, sample: Path) -> None:
    manifest = read_manifest(corpus)
    assert manifest.format == FORMAT and manifest.signature.endswith(manifest.fingerprint[:12])
    assert [source["licence"] for source in manifest.sources] == ["Apache-2.0"] * 2
    for source in manifest.sources:
        for file in source["files"]:
            assert file["size"] == (sample / file["name"]).stat().st_size and len(file["sha256"]) == 64
    assert str(sample) not in (corpus / MANIFEST).read_text()


def test_only_some_columns(corpus: Path) -> None:
    [first, *_] = Corpus(corpus).documents(["id", "title"])
    assert first.id and first.title and (first.text, first.words, first.meta) == ("", "", {})


def test_any_tool_can_read_a_shard(corpus: Path) -> None:
    table = pq.read_table(next((corpus / "documents").iterdir()))
    assert table.column_names == ["id", "source", "title", "url", "text", "words", "meta"]


def test_words_want_a_segmenter(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample)
    corpus = Corpus.build(load_recipe(sample / "recipe.toml", ["corpus.segmenter=none"]), tmp_path / "out")
    with pytest.raises(ConfigError, match="this corpus has no words"):
        corpus.export(io.StringIO(), "words")
    with pytest.raises(ConfigError, match="no form of export"):
        corpus.export(io.StringIO(), "xml")
    assert list(corpus.verify()) == []


def test_verify_finds_words_that_are_not_the_text(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    manifest = json.loads((copy / MANIFEST).read_bytes())
    part = copy / manifest["parts"][0]["path"]
    table = pq.read_table(part)
    words = table["words"].to_pylist()
    changed = table.set_column(5, "words", [[words[0] + "余分", *words[1:]]])
    pq.write_table(changed, part)
    manifest["parts"][0]["sha256"] = hashlib.sha256(part.read_bytes()).hexdigest()
    del manifest["checksum"]
    (copy / MANIFEST).write_text(json.dumps(manifest))
    [damage] = Corpus(copy).verify()
    assert damage.path == manifest["parts"][0]["path"] and damage.what.endswith("its words are not its text")


@pytest.mark.parametrize("data", [b"", b"{}", b"not json", b'{"jprep": 1}', b'{"jprep": "\xff"}', b"\xff", b"[" * 9999])
def test_a_manifest_that_cannot_be_read(data: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(data)
    with pytest.raises(ConfigError, match=r"corpus\.json cannot be read"):
        Corpus(tmp_path)


def test_a_damaged_shard_is_named(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    part = next((copy / "documents").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(DamagedError, match="is not what was written") as caught:
        list(Corpus(copy))
    assert caught.value.where == str(part)
