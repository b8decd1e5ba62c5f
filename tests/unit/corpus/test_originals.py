"""Originals: the records of a corpus, read again from its inputs."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import Corpus
from jprep.corpus.config import CorpusRecipe, decode_recipe
from jprep.corpus.document import UNMARK, Document, Reject
from jprep.corpus.originals import Original, Originals, Reason, Unavailable
from jprep.corpus.originals.records import FilterResult
from jprep.corpus.readers.lines import Cc100Reader, LineReader
from jprep.corpus.readers.mediawiki.xml_export import parse_pages
from jprep.corpus.step import Reader, Shard
from jprep.errors import JprepError
from jprep.io.inputs.streams import open_input
from jprep.pipeline.recipe import load_recipe
from jprep.plugins import plugins, recipe_options

TEXTS = ["一つ目の文書です。ﾊﾝｶｸもあります。", "二つ目の文書です。２０２０年のことです。", "短い"]


def recipe(reader: Any, *paths: Path, **corpus: Any) -> CorpusRecipe:
    sources = [{"name": "src", "paths": list(map(str, paths)), "reader": reader}]
    return decode_recipe({"name": "small", "corpus": {"sources": sources, "segmenter": "none"} | corpus})


def built(tmp_path: Path, reader: Any, *paths: Path, **corpus: Any) -> Corpus:
    return Corpus.build(recipe(reader, *paths, **corpus), tmp_path / "corpus")


def all_ids(corpus: Corpus) -> list[str]:
    return [item.id for item in (*corpus, *corpus.rejects())]


def found(corpus: Corpus, *places: Path, ids: list[str] | None = None) -> dict[str, Original]:
    originals = Originals(corpus.folder, list(map(str, places))).find(ids or all_ids(corpus))
    for original in originals.values():
        assert isinstance(original, Original), original
    return originals  # type: ignore[return-value]


def records(corpus: Corpus, *places: Path) -> list[str]:
    return [original.original for original in found(corpus, *places).values()]


def reason(corpus: Corpus, *places: Path) -> Reason:
    answers = Originals(corpus.folder, list(map(str, places))).find(all_ids(corpus)).values()
    [only] = {answer.reason for answer in answers if isinstance(answer, Unavailable)}
    return only


def put(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


class TestRecords:
    @pytest.mark.parametrize("compress", [bytes, gzip.compress])
    @pytest.mark.parametrize("shard_mb", [32.0, 1e-5])
    def test_cc100(self, tmp_path: Path, compress: Any, shard_mb: float) -> None:
        documents = [f"{text}\r\n二行目です。" for text in TEXTS]
        path = put(tmp_path / "ja.txt", compress("\n\n".join(documents).encode()))
        assert records(built(tmp_path, {"use": "cc100", "shard_mb": shard_mb}, path), path) == documents

    def test_text(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.txt", "\n".join(TEXTS).encode("cp932"))
        corpus = built(tmp_path, {"use": "text", "documents": "line", "encoding": "cp932"}, path)
        assert records(corpus, path) == TEXTS

    def test_text_of_files_with_equal_names(self, tmp_path: Path) -> None:
        paths = [put(tmp_path / folder / "a.txt", text) for folder, text in zip("xyz", TEXTS, strict=True)]
        corpus = built(tmp_path, "text", *paths)
        assert [item.id for item in corpus] == ["src:x/a.txt", "src:y/a.txt", "src:z/a.txt"]
        assert records(corpus, tmp_path) == TEXTS

    def test_jsonl(self, tmp_path: Path) -> None:
        lines = [json.dumps({"body": text, "n": n}) for n, text in enumerate(TEXTS)]
        broken = ['{"body": 1}', "{broken"]
        path = put(tmp_path / "a.jsonl", "\n".join([*lines, *broken]))
        corpus = built(tmp_path, {"use": "jsonl", "text": "body", "max_bad": 0.9}, path)
        assert records(corpus, path) == [*lines, *broken]
        assert [each.read_text for each in found(corpus, path).values()] == [*TEXTS, "", ""]

    def test_undecodable_bytes_are_shown(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.jsonl", b'{"text": "\xe3\x81\x82"}\n{"text": "\xff"}\n')
        assert records(built(tmp_path, {"use": "jsonl", "max_bad": 0.9}, path), path)[1] == '{"text": "\\xff"}'

    def test_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["title", "text"], *(["題\n名", text] for text in TEXTS)])
        corpus = built(tmp_path, {"use": "csv", "title": "title"}, path)
        assert records(corpus, path) == [f'"題\n名",{text}' for text in TEXTS]

    def test_parquet(self, tmp_path: Path) -> None:
        rows = [{"text": text, "page": {"title": f"題{n}"}} for n, text in enumerate(TEXTS)]
        path = tmp_path / "a.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        corpus = built(tmp_path, {"use": "parquet", "title": "page.title"}, path)
        assert [json.loads(record) for record in records(corpus, path)] == rows

    def test_wikitext(self, corpus: Path, sample: Path) -> None:
        dump = sample / "sample-pages-articles-multistream.xml.bz2"
        with open_input(str(dump)) as file:
            pages = {f"sample:{page.id}": page for page in parse_pages(iter([(file.read(), True)]), "", 1 << 30)}
        opened = Corpus(corpus)
        ids = [item for item in all_ids(opened) if item.startswith("sample:")]
        originals = found(opened, sample, ids=ids)
        assert {id: each.original for id, each in originals.items()} == {id: pages[id].text or "" for id in ids}
        assert len(originals) == len(pages)


class TestSteps:
    def test_texts_end_as_in_the_corpus(self, corpus: Path, sample: Path) -> None:
        """Deduplication and segmentation, which need other documents, are left out."""
        config = load_recipe(sample / "recipe.toml", {"corpus.dedup": {"documents": False}}).corpus
        assert config.dedup.lines is False
        opened = Corpus(corpus)
        originals = found(opened, sample)
        for doc in opened:
            lines = originals[doc.id].text.split("\n")
            assert [line for line in lines if line in doc.text.split("\n")] == doc.text.split("\n")
            assert originals[doc.id].words.translate(UNMARK) == originals[doc.id].text
        for reject in opened.rejects():
            if not reject.step.startswith("dedup"):
                assert originals[reject.id].reject == reject

    def test_normalizers_and_filters(self, tmp_path: Path) -> None:
        text = "　\nﾃﾞｰﾀです。\n" + "同じ行です。\n" * 2
        path = put(tmp_path / "a.txt", text)
        filters = [{"use": "repeated_lines", "drop_repeats": True, "max_lines": 1, "max_chars": 1}, "length", "symbols"]
        corpus = built(tmp_path, "text", path, normalizers=["nfkc", "neologdn"], filters=filters)
        [original] = found(corpus, path).values()
        assert original.read_text == text.rstrip("\n")
        assert [name for name, _ in original.normalized] == ["nfkc", "neologdn"]
        assert original.normalized[0][1].endswith("データです。\n同じ行です。\n同じ行です。")
        assert original.text == "データです。\n同じ行です。"
        repeated, length, symbols = original.filters
        assert repeated.lines == (2,) and repeated.reason == "repeated_lines"
        assert length == FilterResult(
            "length",
            True,
            "",
            (),
            {"characters": 13, "sentences": 2},
            {"characters": (10, None), "sentences": (None, None)},
        )
        assert symbols.keep and original.reject is None

    def test_a_rejected_document_is_shown_whole(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.txt", "★" * 200 + "終わり")
        corpus = built(tmp_path, "text", path, normalizers=[], filters=["length", "symbols", "japanese"])
        [reject] = corpus.rejects()
        [original] = found(corpus, path).values()
        assert len(reject.excerpt) == 80 and original.reject == reject
        assert original.text == "★" * 200 + "終わり" == original.original
        assert [(each.name, each.keep, each.reason) for each in original.filters] == [
            ("length", True, ""),
            ("symbols", False, "symbols"),
            ("japanese", False, "foreign"),
        ]

    def test_long_texts_are_cut(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.txt", "あ" * 1000)
        corpus = built(tmp_path, "text", path, filters=["length"])
        original = Originals(corpus.folder, [str(path)]).find(["src:a.txt"], limit=10)["src:a.txt"]
        assert isinstance(original, Original) and original.filters[0].measures["characters"] == 1000
        assert {original.original, original.read_text, original.text, original.words} == {"あ" * 10}
        assert original.original_chars == 1000


class TestParts:
    @pytest.fixture
    def reads(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Indexes of the shards that are read."""
        seen: list[int] = []
        items = LineReader.items

        def recorded(self: LineReader, shard: Shard, *arguments: Any) -> Iterator[Any]:
            seen.append(shard.index)
            return items(self, shard, *arguments)

        monkeypatch.setattr(LineReader, "items", recorded)
        return seen

    @pytest.mark.parametrize("compress", [bytes, gzip.compress])
    def test_one_id_reads_one_shard(self, tmp_path: Path, reads: list[int], compress: Any) -> None:
        documents = [f"{number}番目の文書です。" * 20_000 for number in range(12)]
        path = put(tmp_path / "ja.txt", compress("\n\n".join(documents).encode()))
        corpus = built(tmp_path, {"use": "cc100", "shard_mb": 1.2}, path)
        assert len(corpus.manifest.parts) > 3
        originals = Originals(corpus.folder, [str(path)])
        ids = [doc.id for doc in corpus]
        for number in (7, 2, 11):
            reads.clear()
            [original] = originals.find([ids[number]]).values()
            assert isinstance(original, Original) and original.original == documents[number][: len(original.original)]
            assert len(reads) == 1

    def test_a_part_that_the_caller_knows_is_not_looked_for(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.txt", TEXTS[0])
        corpus = built(tmp_path, "text", path)
        [part] = corpus.manifest.parts
        (corpus.folder / part.path).unlink()
        [original] = Originals(corpus.folder, [str(path)]).find(["src:a.txt"], {"src:a.txt": part.path}).values()
        assert isinstance(original, Original)

    def test_all_records_of_a_part(self, corpus: Path, sample: Path) -> None:
        opened = Corpus(corpus)
        originals = Originals(corpus, [str(sample)])
        for part in opened.manifest.files:
            originals_of_part = {each.id: each for each in originals.of_shard(part.path)}
            ids = [hit.item.id for hit in opened._all_items() if hit.part == part.path]
            assert {id: originals_of_part[id] for id in ids} == originals.find(ids)


class TestReasons:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return put(tmp_path / "input" / "ja.txt", "\n\n".join(TEXTS))

    def test_no_place(self, tmp_path: Path, path: Path) -> None:
        assert reason(built(tmp_path, "cc100", path)) is Reason.INPUT_GONE

    def test_missing(self, tmp_path: Path, path: Path) -> None:
        corpus = built(tmp_path, "cc100", path)
        path.unlink()
        assert reason(corpus, path, path.parent) is Reason.INPUT_GONE

    @pytest.mark.parametrize("text", ["別", "\n\n".join(reversed(TEXTS))])
    def test_changed(self, tmp_path: Path, path: Path, text: str) -> None:
        corpus = built(tmp_path, "cc100", path)
        path.write_text(text, encoding="utf-8")
        assert reason(corpus, path) is Reason.INPUT_CHANGED

    def test_changed_after_it_was_found(self, tmp_path: Path, path: Path) -> None:
        corpus = built(tmp_path, "cc100", path)
        originals = Originals(corpus.folder, [str(path)])
        [first, *_] = all_ids(corpus)
        assert isinstance(originals.find([first])[first], Original)
        path.write_text("\n\n".join(reversed(TEXTS)), encoding="utf-8")
        [answer] = originals.find([first]).values()
        assert isinstance(answer, Unavailable) and answer.reason is Reason.INPUT_CHANGED
        path.unlink()
        [answer] = originals.find([first]).values()
        assert isinstance(answer, Unavailable) and answer.reason is Reason.INPUT_GONE

    def test_the_right_file_is_found_beside_wrong_ones(self, tmp_path: Path, path: Path) -> None:
        corpus = built(tmp_path, "cc100", path)
        put(tmp_path / "input" / "a" / "ja.txt", "\n\n".join(reversed(TEXTS)))
        shutil.move(path, tmp_path / "input" / "b.txt")
        put(tmp_path / "input" / "z" / "ja.txt", "\n\n".join(TEXTS))
        assert records(corpus, path.parent) == TEXTS

    def test_files_before_a_missing_one(self, tmp_path: Path) -> None:
        paths = [put(tmp_path / name, text) for name, text in zip(("a.txt", "b.txt", "c.txt"), TEXTS, strict=True)]
        corpus = built(tmp_path, "text", *paths)
        paths[1].unlink()
        answers = Originals(corpus.folder, [str(tmp_path)]).find(all_ids(corpus))
        assert [type(answer) for answer in answers.values()] == [Original, Unavailable, Unavailable]

    def test_pipe(self, tmp_path: Path, jprep: Any) -> None:
        data = "\n\n".join(TEXTS).encode()
        jprep("corpus", "build", "--cc100", "-", "--segmenter", "none", "-o", tmp_path / "corpus", stdin=data)
        assert reason(Corpus(tmp_path / "corpus"), tmp_path) is Reason.INPUT_PIPE

    def test_unknown_ids(self, corpus: Path, sample: Path) -> None:
        originals = Originals(corpus, [str(sample)])
        for parts in (None, {"x": "documents/0000-sample-000000.parquet"}, {"x": "documents/9999-x-000000.parquet"}):
            [answer] = originals.find(["x"], parts).values()
            assert isinstance(answer, Unavailable) and answer.reason is Reason.NOT_FOUND

    def test_other_versions(self, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        corpus = built(tmp_path, "cc100", path)
        monkeypatch.setattr(Cc100Reader, "version", 99)
        assert reason(corpus, path) is Reason.STEP_CHANGED
        with pytest.raises(JprepError, match="version 99 here"):
            list(Originals(corpus.folder, [str(path)]).of_shard(corpus.manifest.parts[0].path))

    def test_another_normalizer_hides_only_what_is_behind_it(
        self, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        corpus = built(tmp_path, "cc100", path, normalizers=["nfkc"])
        monkeypatch.setattr(plugins().get("normalizer", "nfkc"), "version", 99)
        original = next(iter(found(corpus, path).values()))
        assert "normalizer nfkc has version 99 here" in original.problem
        assert (original.original, original.text, original.normalized) == (TEXTS[0], "", ())


class PlainReader(Reader):
    """A plugin's reader: without a method for originals."""

    name = "plain"
    version = 1

    def shards(self, path: str) -> Iterator[Shard]:
        yield Shard(path, 0)

    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        for number, line in enumerate(Path(shard.path).read_text("utf-8").split("\n")):
            yield (
                Document(f"{source}:{number}", source, "", "", line)
                if line
                else Reject(f"{source}:{number}", "", "reader.plain", "empty", "excerpt")
            )


def test_a_reader_without_originals_shows_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = plugins()._named["reader"]
    monkeypatch.setitem(known, "plain", PlainReader)
    path = put(tmp_path / "a.txt", f"{TEXTS[0]}\n\n{TEXTS[1]}")
    corpus = built(tmp_path, "plain", path)
    assert records(corpus, path) == [TEXTS[0], TEXTS[1], "excerpt"]
    monkeypatch.delitem(known, "plain")
    assert reason(corpus, path) is Reason.STEP_MISSING


def test_the_list_of_a_filter_is_read_where_a_recipe_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_options, "_options", defaultdict(list))
    words, texts, file = tmp_path / "ng.txt", tmp_path / "in.txt", tmp_path / "r.toml"
    words.write_text("悪い\n", encoding="utf-8")
    texts.write_text("悪い文書です。\n", encoding="utf-8")
    filters = [{"preset": "swallow-v1", "files": {"ng_words": str(words)}}]
    corpus = built(tmp_path, "text", texts, filters=filters)
    shown = f'filters = [{{ preset = "swallow-v1", files = {{ ng_words = "{words}" }} }}]'
    file.write_text(
        f'name = "r"\n[corpus]\nsources = [{{ name = "src", paths = [], reader = "text" }}]\n{shown}', encoding="utf-8"
    )
    [traced] = found(corpus, texts).values()
    assert "published_words cannot be used here" in traced.problem
    load_recipe(file)
    [traced] = found(corpus, texts).values()
    assert traced.problem == "" and [each.name for each in traced.filters] == ["swallow-v1"]


def test_a_recipe_with_wrong_options_leaves_steps_without_files_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_options, "_options", defaultdict(list))
    recipe_options.register_recipe_options("normalizer", "neologdn", {"name": "neologdn", "no_such_option": 1})
    texts = put(tmp_path / "in.txt", "短い文書です。")
    [traced] = found(built(tmp_path, "text", texts), texts).values()
    assert traced.problem == "" and [name for name, _ in traced.normalized] == ["neologdn"]
