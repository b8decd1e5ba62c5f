"""Steps of single sources: `normalizers`, and text that stays as it is."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep import Corpus
from jprep.corpus.config import CorpusRecipe, decode_recipe
from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document, Reject, count_paragraphs
from jprep.corpus.originals import Original, Originals
from jprep.corpus.processing import DocumentProcessor
from jprep.corpus.splitters.rules import RuleSplitter
from jprep.errors import ConfigError, InputError, MismatchError
from jprep.report.corpus.provenance import steps

CODE = (
    "\n\ndef f(x):\n\tif x:  # tab  \n        return 'ｶﾅ  ！！'   \n\n\n    # trailing\t\n"
    '\n    s = """a\r\n  b\x0c"""\r\n\x0b\u2028\u3000全角　\n  \n\n'
)
PROSE = "ﾊﾝｶｸと　全角の　文。\n\n  つぎの段落。"
NORMAL = "ハンカクと全角の文。\nつぎの段落。"


def source(name: str, path: Path, **options: Any) -> dict[str, Any]:
    return {"name": name, "paths": [str(path)], "reader": "jsonl"} | options


def recipe(*sources: dict[str, Any], **corpus: Any) -> CorpusRecipe:
    return decode_recipe({"name": "r", "corpus": {"sources": list(sources), "segmenter": "none"} | corpus})


def jsonl(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def texts(corpus: Corpus, name: str) -> list[str]:
    return [doc.text for doc in corpus if doc.source == name]


def write(kind: str, folder: Path, text: str = CODE) -> tuple[Path, Any]:
    """Write a text as one document; return the file and its reader."""
    path = folder / f"code.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": [text]}), path)
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["text"], [text]])
    elif kind == "text":
        path.write_bytes(text.encode())
        return path, {"use": "text", "documents": "file"}
    else:
        jsonl(path, text)
    return path, kind


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "text"])
@pytest.mark.parametrize("segmenter", ["none", "spaces"])
@pytest.mark.parametrize("dedup", [{"documents": False}, {"lines": True, "line_min_chars": 1}])
def test_code_comes_out_byte_for_byte(kind: str, segmenter: str, dedup: dict[str, Any], tmp_path: Path) -> None:
    path, reader = write(kind, tmp_path)
    mixed = source("prose", jsonl(tmp_path / "p.jsonl", PROSE, "    # trailing\t\n" * 3))
    config = recipe(source("code", path, reader=reader, as_is=True), mixed, segmenter=segmenter, dedup=dedup)
    corpus = Corpus.build(config, tmp_path / "corpus")
    [doc] = [doc for doc in corpus if doc.source == "code"]
    assert doc.text.encode() == CODE.encode()
    assert doc.words.translate(UNMARK) == doc.text
    assert texts(corpus, "prose")[0] == NORMAL


ENGLISH = "\t The  ﬁrst draft…  \r\n\r\n\x00 “quoted” – e\u0301, ｆｕｌｌ　ｗｉｄｔｈ;   \x7f\n\n\n end \u00a0\ufeff \n"


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "text"])
def test_english_with_control_characters_comes_out_byte_for_byte(kind: str, tmp_path: Path) -> None:
    path, reader = write(kind, tmp_path, ENGLISH)
    corpus = Corpus.build(recipe(source("en", path, reader=reader, as_is=True, filters=[])), tmp_path / "corpus")
    [doc] = corpus
    assert doc.text.encode() == ENGLISH.encode() and doc.words.translate(UNMARK) == doc.text


@pytest.mark.parametrize(("kind", "place"), [("jsonl", "byte 0"), ("parquet", "row 0"), ("text", "byte 2")])
def test_a_lone_surrogate_is_an_error_that_names_its_place(kind: str, place: str, tmp_path: Path) -> None:
    """UTF-8 has no surrogates, so such text cannot be kept as it is."""
    path, reader, bad = tmp_path / f"bad.{kind}", kind, b"a \xed\xa0\x80 b"
    if kind == "jsonl":
        path.write_text('{"text": "a \\ud800 b"}\n')
    elif kind == "parquet":
        buffers = pa.array([bad], pa.binary()).buffers()
        pq.write_table(pa.table({"text": pa.Array.from_buffers(pa.string(), 1, buffers)}), path)
    else:
        path.write_bytes(bad)
    with pytest.raises(InputError, match=r"surrogate|0xed is not valid utf-8") as caught:
        Corpus.build(recipe(source("s", path, reader=reader, as_is=True)), tmp_path / "corpus")
    assert path.name in caught.value.where and caught.value.where.endswith(place) and "max_bad" in caught.value.fix


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("a。」 \t\n\r\x0c\x0b\u2028\x85\x1e\x1f\x00"), max_size=30))
def test_only_jprep_s_separators_are_removed(text: str) -> None:
    from jprep.corpus.readers.lines import JsonlReader

    reader = JsonlReader()
    reader.as_is = True
    item = reader.clean_document(Document("i", "s", "", "", text))
    kept = text.translate(UNMARK)
    if isinstance(item, Reject):
        assert not kept.strip()
        return
    [done] = DocumentProcessor([], RuleSplitter(), [], as_is=True).process([item])
    assert isinstance(done, Document) and done.text == kept and done.words.translate(UNMARK) == kept
    assert reader.tally["control.deleted"] == sum(text.count(mark) for mark in (SENTENCE, WORD))
    assert count_paragraphs(kept) == sum(1 for line in kept.split("\n") if line)


@pytest.mark.parametrize(("documents", "expected"), [("line", ["a  ", "\tb"]), ("blank_line", ["a  \n\tb"])])
def test_separators_of_records_are_not_text(documents: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"a  \n\tb\r\n\n")
    config = recipe(source("t", path, reader={"use": "text", "documents": documents}, as_is=True))
    assert texts(Corpus.build(config, tmp_path / "corpus"), "t") == expected


def test_a_source_has_normalizers_of_its_own(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "in.jsonl", PROSE)
    own = [source("all", path), source("nfkc", path, normalizers=["nfkc"]), source("bare", path, normalizers=[])]
    corpus = Corpus.build(recipe(*own, dedup={"documents": False}), tmp_path / "corpus")
    assert texts(corpus, "all") == [NORMAL]
    assert texts(corpus, "nfkc") == ["ハンカクと 全角の 文。\n  つぎの段落。"]
    assert texts(corpus, "bare") == ["ﾊﾝｶｸと　全角の　文。\n  つぎの段落。"]
    named = [step.name for step in steps(corpus.manifest) if step.kind == "normalizer"]
    assert named == ["neologdn", "nfkc"]


def test_fingerprints_without_the_keys_are_as_before(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "in.jsonl", PROSE)
    [entry] = Corpus.build(recipe(source("s", path)), tmp_path / "a").manifest.made_from["documents"]["sources"]
    assert entry.keys() == {"name", "reader", "files", "filters"}
    [entry] = Corpus.build(recipe(source("s", path, as_is=True)), tmp_path / "b").manifest.made_from["documents"][
        "sources"
    ]
    assert entry["as_is"] is True and entry["normalizers"] == []
    with pytest.raises(MismatchError, match="as_is"):
        Corpus.build(recipe(source("s", path)), tmp_path / "b")


def test_originals_show_the_steps_of_the_source(tmp_path: Path) -> None:
    code, prose = jsonl(tmp_path / "code.jsonl", CODE, "x"), jsonl(tmp_path / "prose.jsonl", CODE, PROSE)
    config = recipe(source("code", code, as_is=True), source("own", prose, normalizers=["nfkc"]))
    corpus = Corpus.build(config, tmp_path / "corpus")
    documents = {doc.id: doc for doc in corpus}
    assert len(documents) == 4
    for id, found in Originals(corpus.folder, [str(code), str(prose)]).find(documents).items():
        assert isinstance(found, Original) and found.text == documents[id].text
        assert [name for name, _ in found.normalized] == ([] if found.source == "code" else ["nfkc"])


def test_blank_lines_are_no_paragraphs(tmp_path: Path) -> None:
    corpus = Corpus.build(recipe(source("s", jsonl(tmp_path / "in.jsonl", "a\n\n\nb\n"), as_is=True)), tmp_path / "c")
    assert corpus.manifest.totals["paragraphs"] == corpus.manifest.totals["sentences"] == 2


def test_contradictions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    with pytest.raises(ConfigError, match="as it is, and has normalizers"):
        recipe(source("s", path, as_is=True, normalizers=["nfkc"]))
    jsonl(path, PROSE)
    with pytest.raises(ConfigError, match="wikipedia cannot keep text as it is"):
        Corpus.build(recipe(source("s", path, as_is=True, reader="wikipedia")), tmp_path / "corpus")
    for reader in ("warc", "html", "law", "diet", "aozora"):
        with pytest.raises(ConfigError, match=f"{reader} cannot keep text as it is"):
            Corpus.build(recipe(source("s", path, as_is=True, reader=reader)), tmp_path / "corpus")
