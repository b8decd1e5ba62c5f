"""The Python API of a corpus."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import Corpus
from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document
from jprep.corpus.exporting.formats import TextFormat
from jprep.corpus.store import FORMAT, MANIFEST, read_manifest
from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError, DamagedError, MismatchError
from jprep.pipeline.recipe import load_recipe
from tests.conftest import digests


def test_words_match_text(corpus: Path) -> None:
    for doc in Corpus(corpus):
        assert doc.words.translate(UNMARK) == doc.text
        assert doc.text and "\n\n" not in doc.text and doc.id.startswith(f"{doc.source}:")


def test_totals_match_the_files(corpus: Path) -> None:
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


def test_manifest_records_inputs_and_steps(corpus: Path, sample: Path) -> None:
    manifest = read_manifest(corpus)
    assert manifest.format == FORMAT and manifest.signature.endswith(manifest.fingerprint[:12])
    assert [source["licence"] for source in manifest.sources] == ["Apache-2.0"] * 2
    for source in manifest.sources:
        for file in source["files"]:
            assert file["size"] == (sample / file["name"]).stat().st_size and len(file["sha256"]) == 64
    assert str(sample) not in (corpus / MANIFEST).read_text()


def test_read_selected_columns(corpus: Path) -> None:
    [first, *_] = Corpus(corpus).documents(["id", "title"])
    assert first.id and first.title and (first.text, first.words, first.meta) == ("", "", {})


def test_shards_are_plain_parquet(corpus: Path) -> None:
    table = pq.read_table(next((corpus / "documents").iterdir()))
    assert table.column_names == ["id", "source", "title", "url", "text", "words", "meta"]


def test_parquet_pattern_matches_documents_only(corpus: Path) -> None:
    manifest = read_manifest(corpus)
    assert {path.relative_to(corpus).as_posix() for path in corpus.rglob("*.parquet")} == {
        part.path for part in manifest.parts
    }
    assert manifest.reject_parts and all(part.path.endswith(".rejects") for part in manifest.reject_parts)


def test_files_have_schema_metadata(corpus: Path) -> None:
    manifest = read_manifest(corpus)
    licences = {source["name"]: source["licence"] for source in manifest.sources}
    for part in manifest.files:
        about = pq.read_schema(corpus / part.path).metadata
        assert about[b"jprep.name"].decode() == manifest.name
        assert about[b"jprep.fingerprint"].decode() == manifest.fingerprint
        assert json.loads(about[b"jprep.licences"]) == licences


def as_format_1(corpus: Path, folder: Path) -> Path:
    """Return a corpus in format 1, as written by jprep 0.1.0."""
    manifest = json.loads((corpus / MANIFEST).read_bytes())
    for part in [*manifest["parts"], *manifest["reject_parts"]]:
        table = pq.read_table(corpus / part["path"]).replace_schema_metadata()
        if "meta" in table.column_names:
            pairs = [[tuple(pair.values()) for pair in row] for row in table["meta"].to_pylist()]
            old = pa.array(pairs, pa.map_(pa.string(), pa.string()))
            table = table.set_column(table.column_names.index("meta"), "meta", old)
        part["path"] = part["path"].replace(".rejects", ".parquet")
        (folder / part["path"]).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / part["path"])
        part["sha256"] = hashlib.sha256((folder / part["path"]).read_bytes()).hexdigest()
    documents = manifest["made_from"]["documents"]
    documents["format"] = manifest["format"] = 1
    del documents["about"]
    manifest["fingerprint"] = fingerprint(manifest["made_from"])
    del manifest["checksum"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def test_format_1_is_readable_and_not_rebuilt(
    corpus: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = as_format_1(corpus, tmp_path / "old")
    opened, now = Corpus(old), Corpus(corpus)
    assert list(opened) == list(now) and any(doc.meta for doc in opened)
    assert list(opened.rejects()) == list(now.rejects())
    assert list(opened.verify()) == [] and list(opened.why(next(now.rejects()).id))
    before = digests(old)
    monkeypatch.chdir(sample)
    assert Corpus.build(load_recipe(sample / "recipe.toml"), old).manifest.format == 1
    assert digests(old).items() >= before.items()
    with pytest.raises(MismatchError, match="name"):
        Corpus.build(load_recipe(sample / "recipe.toml", ["name=other"]), corpus)


def test_later_format_is_an_error(corpus: Path, tmp_path: Path) -> None:
    later = json.loads((corpus / MANIFEST).read_bytes()) | {"format": FORMAT + 1, "jprep": "9.9"}
    del later["checksum"]
    (tmp_path / MANIFEST).write_bytes(encode_checksummed(later))
    with pytest.raises(ConfigError, match=f"format {FORMAT + 1}") as refused:
        Corpus(tmp_path)
    assert refused.value.fix == "install jprep 9.9 or later"


def test_exporting_words_needs_a_segmenter(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample)
    corpus = Corpus.build(load_recipe(sample / "recipe.toml", ["corpus.segmenter=none"]), tmp_path / "out")
    with pytest.raises(ConfigError, match="this corpus has no words"):
        corpus.export(io.StringIO(), "words")
    with pytest.raises(ConfigError, match="unknown export format"):
        corpus.export(io.StringIO(), "xml")
    assert list(corpus.verify()) == []


@pytest.mark.parametrize(("unit", "lines"), [("sentence", "一。\n二。\n三\n"), ("paragraph", "一。\u3000二。\n三\n")])
def test_white_space_between_sentences_is_no_line(unit: Any, lines: str) -> None:
    words = f"一。{SENTENCE}\u3000{SENTENCE}二。\n{WORD}\n三"
    document = Document(id="1", source="s", title="", url="", text=words.translate(UNMARK), words=words)
    assert TextFormat("text", unit).lines(document) == lines + "\n"
    assert TextFormat("words", unit, blank_lines=False).lines(document) == lines.replace("\u3000", " ")


@pytest.mark.parametrize("unit", ["sentence", "paragraph"])
def test_text_keeps_the_indentation_of_paragraphs(unit: Any) -> None:
    words = f"def f():\n    return{WORD} 1  \n\n\u3000一。"
    document = Document(id="1", source="s", title="", url="", text=words.translate(UNMARK), words=words)
    assert TextFormat("text", unit, blank_lines=False).lines(document) == "def f():\n    return 1\n\u3000一。\n"


def test_verify_finds_words_that_do_not_match_the_text(corpus: Path, tmp_path: Path) -> None:
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
    assert damage.path == manifest["parts"][0]["path"] and damage.what.endswith("its words do not match its text")


@pytest.mark.parametrize("data", [b"", b"{}", b"not json", b'{"jprep": 1}', b'{"jprep": "\xff"}', b"\xff", b"[" * 9999])
def test_unreadable_manifest(data: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(data)
    with pytest.raises(ConfigError, match=r"corpus\.json cannot be read"):
        Corpus(tmp_path)


def test_a_damaged_shard_is_named(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    part = next((copy / "documents").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(DamagedError, match="was changed or damaged") as caught:
        list(Corpus(copy))
    assert caught.value.where == str(part)
