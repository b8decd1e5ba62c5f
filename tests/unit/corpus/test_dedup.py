"""Exact deduplication, compared with a naive implementation."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.dedup import exact
from jprep.corpus.dedup import hashes as hash_files
from jprep.corpus.dedup.hashes import WHOLE_DOCUMENT, DocumentHashWriter
from jprep.corpus.document import UNMARK, Document
from jprep.errors import ConfigError

Texts = list[list[str]]
"""Documents by source, one paragraph per line."""


def naive(texts: Texts, min_chars: int) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]], int]:
    """Kept documents as (id, text), rejects as (id, step, reason), and the lines dropped."""
    whole: set[str] = set()
    seen: set[str] = set()
    kept, rejects, dropped = [], [], 0
    for source, docs in enumerate(texts):
        for number, text in enumerate(docs):
            name = f"s{source}:{number}"
            if text in whole:
                rejects.append((name, "dedup.documents", "duplicate"))
                continue
            whole.add(text)
            lines = []
            for line in text.split("\n"):
                if len(line) < min_chars or line not in seen:
                    lines.append(line)
                seen.add(line)
            dropped += text.count("\n") + 1 - len(lines)
            if lines:
                kept.append((name, "\n".join(lines)))
            else:
                rejects.append((name, "dedup.lines", "empty"))
    return kept, rejects, dropped


def built(
    folder: Path, texts: Texts, min_chars: int = 3, shards: int = 1, splitter: str = "none", **dedup: Any
) -> Corpus:
    """Build a corpus of these texts, with several shards per source."""
    folder.mkdir(exist_ok=True)
    sources = []
    for source, docs in enumerate(texts):
        rows = [msgspec.json.encode({"id": str(n), "text": text}) + b"\n" for n, text in enumerate(docs)]
        size = -(-len(rows) // shards) or 1
        names = []
        for part in range(0, len(rows), size):
            names.append(str(folder / f"{source}-{part:04}.jsonl"))
            Path(names[-1]).write_bytes(b"".join(rows[part : part + size]))
        if names:
            sources.append({"name": f"s{source}", "paths": names, "reader": {"use": "jsonl", "id": "id"}})
    options = {"documents": True, "lines": True, "line_min_chars": min_chars} | dedup
    corpus = {"sources": sources, "normalizers": [], "splitter": splitter, "segmenter": "none", "dedup": options}
    return Corpus.build(decode_recipe({"name": "dedup", "corpus": corpus}), folder / "corpus")


def rows(corpus: Corpus) -> list[tuple[str, str]]:
    return [(doc.id, doc.text) for doc in corpus]


def rejected(corpus: Corpus) -> list[tuple[str, str, str]]:
    return [(each.id, each.step, each.reason) for each in corpus.rejects()]


lines = st.sampled_from(["あ", "いろ", "はにほ", "へとちり", "ぬるをわか", "よたれそつね"])
documents = st.lists(lines, min_size=1, max_size=4).map("\n".join)


def drops(folder: Path, texts: Texts, min_chars: int) -> set[tuple[int, int, int]]:
    """Return what is dropped as (shard, row, line); the line is WHOLE_DOCUMENT for a document."""
    hashes = []
    for shard, docs in enumerate(texts):
        writer = DocumentHashWriter(True, min_chars)
        for text in docs:
            writer.add(Document("", "", "", "", text))
        hashes.append(writer.commit(folder, f"hashes/{shard}"))
    stage = exact.ExactDedup(hashes, "", "")
    outputs = [output for task in stage.tasks() for output in stage.run(task, folder).outputs]
    found = [(shard, exact.drops_for_shard(shard, folder, outputs)) for shard in range(len(texts))]
    whole = {(shard, row, WHOLE_DOCUMENT) for shard, drop in found for row in drop.documents}
    return whole | {(shard, row, n) for shard, drop in found for row, lines in drop.lines.items() for n in lines}


lines = st.sampled_from(["あ", "いろ", "はにほ", "へとちり", "ぬるをわか", "よたれそつね"])
documents = st.lists(lines, min_size=1, max_size=4).map("\n".join)


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.lists(documents, max_size=6), min_size=1, max_size=4),
    min_chars=st.integers(1, 5),
    bucket=st.sampled_from([8, 2_000_000]),
)
@example(texts=[["あ"]], min_chars=1, bucket=1)  # most buckets are empty
def test_first_occurrence_is_kept(
    texts: Texts, min_chars: int, bucket: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen: set[str] = set()
    whole: set[str] = set()
    expected = set()
    for shard, row, text in [(s, r, text) for s, docs in enumerate(texts) for r, text in enumerate(docs)]:
        if text in whole:
            expected.add((shard, row, WHOLE_DOCUMENT))
        whole.add(text)
        for number, line in enumerate(text.split("\n")):
            if len(line) >= min_chars and line in seen:
                expected.add((shard, row, number))
            seen.add(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_files, "_BUCKET", bucket)
        assert drops(tmp_path_factory.mktemp("law"), texts, min_chars) == expected


TEXTS = [["初めの行\n次の行", "別の文書"], ["次の行\n自分の行", "別の文書"], ["初めの行", "終わり\n終わり"]]


def test_first_occurrence_is_kept_across_sources(tmp_path: Path) -> None:
    corpus = built(tmp_path / "a", TEXTS)
    assert rows(corpus) == [
        ("s0:0", "初めの行\n次の行"), ("s0:1", "別の文書"), ("s1:0", "自分の行"), ("s2:1", "終わり"),
    ]  # fmt: skip
    assert rejected(corpus) == [("s1:1", "dedup.documents", "duplicate"), ("s2:0", "dedup.lines", "empty")]
    assert [each.excerpt for each in corpus.rejects()] == ["別の文書", ""]
    counts = corpus.manifest.counts
    assert (counts["dedup.lines.lines_dropped"], counts["dedup.lines.characters_dropped"]) == (3, 10)
    assert corpus.manifest.rejects == {"dedup.documents/duplicate": 1, "dedup.lines/empty": 1}


def test_dedup_lines_only(tmp_path: Path) -> None:
    corpus = built(tmp_path / "a", TEXTS, documents=False)
    assert [each[1] for each in rows(corpus)] == ["初めの行\n次の行", "別の文書", "自分の行", "終わり"]
    assert {each[1:] for each in rejected(corpus)} == {("dedup.lines", "empty")}


def test_dedup_documents_only(tmp_path: Path) -> None:
    corpus = built(tmp_path / "a", TEXTS, lines=False)
    assert [each[0] for each in rows(corpus)] == ["s0:0", "s0:1", "s1:0", "s2:0", "s2:1"]


def test_dedup_disabled(tmp_path: Path) -> None:
    corpus = built(tmp_path / "a", TEXTS, documents=False, lines=False)
    assert len(corpus) == 6
    assert not list(corpus.rejects())


def test_any_number_of_buckets_gives_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [[f"{n % 17}番目の文書\n{n % 5}番目の行" for n in range(start, start + 40)] for start in (0, 20)]
    expected = built(tmp_path / "one", texts)
    monkeypatch.setattr(hash_files, "_BUCKET", 30)
    many = built(tmp_path / "many", texts)
    assert exact.ExactDedup([exact.Output("x", 240, "")], "", "").total() == 16
    assert (many.manifest.parts, many.manifest.reject_parts) == (
        expected.manifest.parts,
        expected.manifest.reject_parts,
    )


@pytest.mark.parametrize("group", [1_000, 8_000, 1 << 20])
def test_any_shard_size_gives_the_same_rows(group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jprep.corpus.stages import planned_shards as stage

    texts = [[f"{n % 170}番目の文書\n{n % 50}番目の行" for n in range(start, start + 400)] for start in (0, 200)]
    kept, rejects, _ = naive(texts, 3)
    monkeypatch.setattr(stage, "_GROUP", group)
    corpus = built(tmp_path / "a", texts, shards=13)
    assert rows(corpus) == kept
    assert sorted(rejected(corpus)) == sorted(rejects)


@pytest.mark.parametrize("texts", [[["短い"]], [["あ"], ["あ"]]])
def test_shards_without_hashes(texts: Texts, tmp_path: Path) -> None:
    corpus = built(tmp_path / "a", texts, min_chars=20, documents=False)
    assert len(corpus) == len(texts)


def frequent(texts: Texts, least: int, most: int, keep: int) -> tuple[list[tuple[str, str]], int]:
    """Kept documents as (id, text), and the lines dropped: those that occur too often, but for the first ones."""
    counts = Counter(line for docs in texts for text in docs for line in text.split("\n"))
    seen = Counter[str]()
    kept, dropped = [], 0
    for source, docs in enumerate(texts):
        for number, text in enumerate(docs):
            stay = list[str]()
            for line in text.split("\n"):
                seen[line] += 1
                if len(line) < least or counts[line] <= most or seen[line] <= keep:
                    stay.append(line)
            dropped += text.count("\n") + 1 - len(stay)
            if stay:
                kept.append((f"s{source}:{number}", "\n".join(stay)))
    return kept, dropped


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(documents, min_size=1, max_size=6), min_size=1, max_size=2), st.integers(1, 4), st.data())
def test_paragraphs_that_occur_too_often_are_dropped(texts: Texts, most: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, most))
    paragraphs = {"min_chars": 2, "max_count": most, "keep": keep}
    with tempfile.TemporaryDirectory() as folder:
        corpus = built(Path(folder), texts, shards=2, documents=False, lines=False, paragraphs=paragraphs)
        kept, dropped = frequent(texts, 2, most, keep)
        assert rows(corpus) == kept
        assert corpus.manifest.counts.get("dedup.lines.lines_dropped", 0) == dropped


def test_paragraphs_by_default_are_those_of_lines(tmp_path: Path) -> None:
    texts = [["はにほ\nいろはにほ", "はにほ\nへとちり"], ["へとちり\nぬる", "はにほ"]]
    old = built(tmp_path / "old", texts)
    new = built(tmp_path / "new", texts, lines=False, paragraphs={"min_chars": 3})
    assert (rows(old), rejected(old)) == (rows(new), rejected(new))
    assert "paragraphs" not in old.manifest.made_from["documents"]["dedup"]
    assert old.manifest.fingerprint != new.manifest.fingerprint


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"lines": True, "paragraphs": {}}, "both drop paragraphs"),
        ({"lines": False, "paragraphs": {"keep": 3, "max_count": 2}}, "more than `max_count`"),
        ({"lines": False, "paragraphs": {"max_count": 0}}, ">= 1"),
        ({"lines": True, "sentences": {}}, "in smaller parts"),
        ({"lines": False, "sentences": {"keep": 3, "max_count": 2}}, "corpus.dedup.sentences"),
    ],
)
def test_keys_of_paragraphs_are_checked(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        built(tmp_path, [["あ"]], **keys)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(documents, min_size=1, max_size=6), min_size=1, max_size=2), st.integers(1, 3), st.data())
def test_sentences_that_occur_too_often_are_dropped(texts: Texts, most: int, data: st.DataObject) -> None:
    """With a mark behind each line and lines joined, sentences are dropped as lines are."""
    keep = data.draw(st.integers(0, most))
    joined = [["".join(f"{line}。" for line in text.split("\n")) for text in docs] for docs in texts]
    table = {"min_chars": 3, "max_count": most, "keep": keep}
    with tempfile.TemporaryDirectory() as folder:
        corpus = built(Path(folder), joined, shards=2, splitter="rules", documents=False, lines=False, sentences=table)
        kept, dropped = frequent(texts, 2, most, keep)
        assert rows(corpus) == [(name, "".join(f"{line}。" for line in text.split("\n"))) for name, text in kept]
        assert corpus.manifest.counts.get("dedup.sentences.sentences_dropped", 0) == dropped


def test_a_paragraph_without_another_sentence_goes(tmp_path: Path) -> None:
    notice = "この頁の文章を無断で転載することを禁じます。"
    texts = [[f"山の話。　{notice}\n{notice}", f"海の話。\n{notice}　川の話。", notice]]
    corpus = built(tmp_path, texts, splitter="rules", documents=False, lines=False, sentences={"keep": 0})
    assert [text for _, text in rows(corpus)] == ["山の話。", "海の話。\n川の話。"]
    assert all(doc.words.translate(UNMARK) == doc.text for doc in corpus)
    assert corpus.manifest.rejects == {"dedup.sentences/empty": 1}
    counts = corpus.manifest.counts
    assert counts["dedup.sentences.sentences_dropped"] == 4
    assert counts["dedup.sentences.characters_dropped"] == 4 * len(notice) + len("　　")
