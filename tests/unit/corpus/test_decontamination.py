"""Documents with items of test sets are dropped or cut by a build, and listed."""

from __future__ import annotations

import gzip
import json
import pydoc
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.decontamination.findings import FoundItem
from jprep.corpus.originals import Originals, Reason, Unavailable
from jprep.corpus.reasons import describe_reason
from jprep.corpus.store import rebuild_fix
from jprep.errors import ConfigError, DamagedError, InputError, JprepError, MismatchError
from jprep.report.corpus.funnel import funnel
from tests.conftest import Run, digests

QUESTION = "湖の水面が夕方に赤く見えるのは、どのような理由からですか。"
OTHER = "駅前の古い時計台を建てた大工の名前を一つ選びなさい。"
BEFORE, AFTER = "朝から雨が降っていた。", "傘を忘れた人が多かった。"


def recipe(folder: Path, texts: list[str], sets: list[dict[str, Any]], **corpus: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, text in enumerate(texts):
        paths.append(str(folder / f"{number:03}.jsonl"))
        Path(paths[-1]).write_bytes(msgspec.json.encode({"id": str(number), "text": text}) + b"\n")
    source = {"name": "s", "paths": paths, "reader": {"use": "jsonl", "id": "id"}}
    raw = {"sources": [source], "decontaminate": sets, "segmenter": "none", "dedup": {"documents": False}, **corpus}
    return decode_recipe({"name": "c", "corpus": raw})


def write_set(folder: Path, rows: list[dict[str, Any]], name: str = "test.jsonl") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder / name)


ROWS = [{"qid": "q1", "question": QUESTION}, {"qid": "q2", "question": OTHER}, {"qid": "q3", "question": "空は？"}]
DOCUMENTS = [
    BEFORE + AFTER,
    f"{BEFORE}{QUESTION}{AFTER}",
    f"{BEFORE}\n{QUESTION.replace('夕方', '夜明け')}",
    QUESTION,
    f"{QUESTION}{OTHER}{BEFORE}",
]


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each input file a task of its own."""
    monkeypatch.setattr("jprep.corpus.stages.planned_shards._GROUP", 1)


def found_items(corpus: Corpus) -> list[FoundItem]:
    return list(corpus.test_items())


def test_documents_of_one_id_are_counted_each(tmp_path: Path) -> None:
    test_set = {"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "id": "qid"}
    made = recipe(tmp_path / "in", DOCUMENTS, [test_set | {"action": "cut"}])
    for path in made.corpus.sources[0].paths:
        Path(path).write_bytes(msgspec.json.encode(msgspec.json.decode(Path(path).read_bytes()) | {"id": "same"}))
    manifest = Corpus.build(made, tmp_path / "out").manifest
    assert (
        [each.documents for each in manifest.test_sets] == [4] == [manifest.counts["decontaminate.quiz.documents_cut"]]
    )


@pytest.mark.parametrize("dedup", [False, True])
def test_documents_with_items_are_dropped_and_listed(tmp_path: Path, dedup: bool) -> None:
    test_set = {"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "id": "qid"}
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, [test_set], dedup={"documents": dedup}), tmp_path / "out")
    assert [doc.text for doc in corpus] == DOCUMENTS[:1]
    assert corpus.manifest.rejects == {"decontaminate.quiz/test_item": 4}
    assert [each.excerpt for each in corpus.rejects()] == ["quiz:q1", "quiz:q1", "quiz:q1", "quiz:q1, quiz:q2"]
    assert found_items(corpus) == [
        FoundItem("quiz:q1", ("s:1", "s:2", "s:3", "s:4"), (1.0, 1.0, 1.0, 1.0)),
        FoundItem("quiz:q2", ("s:4",), (1.0,)),
        FoundItem("quiz:q3", not_checked="too_short"),
    ]
    [counts] = corpus.manifest.test_sets
    assert (counts.items, counts.not_checked, counts.found, counts.documents) == (3, 1, 2, 4)
    assert not list(corpus.verify())
    assert [step.dropped for step in funnel(corpus.manifest) if step.name == "decontaminate.quiz"] == [4]
    phrase = describe_reason(corpus.manifest.made_from, "decontaminate.quiz", "test_item")
    assert phrase.startswith("an item of the test set quiz is in the document")


def test_an_unknown_id_is_not_looked_for_in_lists_of_items(tmp_path: Path) -> None:
    test_set = {"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"]}
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, [test_set]), tmp_path / "out")
    found = Originals(corpus.folder).find(["s:99"])["s:99"]
    assert isinstance(found, Unavailable) and found.reason is Reason.NOT_FOUND


def test_sentences_with_items_are_cut(tmp_path: Path) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "action": "cut"}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets), tmp_path / "out")
    assert [doc.text for doc in corpus] == [BEFORE + AFTER, BEFORE + AFTER, BEFORE, BEFORE]
    assert corpus.manifest.rejects == {"decontaminate.quiz/test_item": 1}
    assert corpus.manifest.counts["decontaminate.quiz.sentences_cut"] == 5
    assert corpus.manifest.counts["decontaminate.quiz.documents_cut"] == 4
    assert not list(corpus.verify())


def test_kept_signals_are_those_of_the_cut_text(tmp_path: Path) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "action": "cut"}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets, signals=["characters"]), tmp_path / "out")
    kept = [(doc.signals["characters"], doc.signals["sentences"]) for doc in corpus]
    assert kept == [(len(text), text.count("。")) for text in (BEFORE + AFTER, BEFORE + AFTER, BEFORE, BEFORE)]


def test_each_test_set_has_its_action(tmp_path: Path) -> None:
    one, other = write_set(tmp_path, ROWS[:1], "one.jsonl"), write_set(tmp_path, ROWS[1:2], "other.jsonl.gz")
    sets = [
        {"name": "one", "paths": [one], "fields": ["question"], "action": "cut"},
        {"name": "other", "paths": [other], "fields": ["question"]},
    ]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets), tmp_path / "out")
    assert [doc.id for doc in corpus] == ["s:0", "s:1", "s:2"]
    assert corpus.manifest.rejects == {"decontaminate.one/test_item": 1, "decontaminate.other/test_item": 1}


def test_each_test_set_counts_what_is_cut(tmp_path: Path) -> None:
    one, other = write_set(tmp_path, ROWS[:1], "one.jsonl"), write_set(tmp_path, ROWS[1:2], "other.jsonl")
    sets = [
        {"name": "one", "paths": [one], "fields": ["question"], "action": "cut"},
        {"name": "other", "paths": [other], "fields": ["question"], "action": "cut"},
    ]
    corpus = Corpus.build(recipe(tmp_path / "in", [QUESTION + OTHER + BEFORE], sets), tmp_path / "out")
    assert [doc.text for doc in corpus] == [BEFORE]
    for name, sentence in (("one", QUESTION), ("other", OTHER)):
        counts = [corpus.manifest.counts[f"decontaminate.{name}.{what}_cut"] for what in ("documents", "characters")]
        assert counts == [1, len(sentence)]


def test_items_that_are_not_looked_for_have_a_reason(tmp_path: Path) -> None:
    rows = [{"q": None, "a": ""}, {"q": "空は？", "a": "はい"}, {"q": QUESTION, "a": ""}]
    path = Path(write_set(tmp_path, rows))
    path.write_bytes(path.read_bytes() + b"{broken\n")
    reader = {"use": "jsonl", "max_bad": 0.5}
    sets = [{"name": "quiz", "paths": [str(path)], "fields": ["q", "a"], "reader": reader}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:1], sets), tmp_path / "out")
    assert [item.not_checked for item in corpus.test_items()] == ["no_text", "too_short", "malformed_json"]


def test_all_test_sets_together_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_set(tmp_path, ROWS[:1])
    sets = [{"name": name, "paths": [path], "fields": ["question"]} for name in ("one", "other")]
    monkeypatch.setattr("jprep.corpus.decontamination.test_sets._MOST", len(QUESTION))
    Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:1], sets[:1]), tmp_path / "one")
    with pytest.raises(InputError, match="test sets have more"):
        Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:1], sets), tmp_path / "both")


def test_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "action": "cut"}]
    chosen = recipe(tmp_path / "in", DOCUMENTS * 3, sets)
    for workers in (1, 2):
        Corpus.build(chosen, tmp_path / str(workers), workers=workers)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


@pytest.mark.parametrize("dedup", [False, True])
@pytest.mark.parametrize("place", ["stages.read.write_occurrences", "build.write_found_items", "build.failpoint"])
def test_interrupted_builds_resume_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, dedup: bool
) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "action": "cut"}]
    chosen = recipe(tmp_path / "in", DOCUMENTS * 2, sets, dedup={"documents": dedup})
    Corpus.build(chosen, tmp_path / "whole")
    original, passed = pydoc.locate(f"jprep.corpus.{place}"), 0

    def stopping(*arguments: Any) -> Any:
        nonlocal passed
        passed += 1
        if passed == (4 if "read" in place else 1):
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(f"jprep.corpus.{place}", stopping)
        with pytest.raises((KeyboardInterrupt, JprepError)):
            Corpus.build(chosen, tmp_path / "out")
    assert not (tmp_path / "out/corpus.json").exists()
    Corpus.build(chosen, tmp_path / "out")
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_test_sets_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    path = write_set(tmp_path, ROWS)
    sets = [{"name": "quiz", "paths": [path], "fields": ["question"]}]
    plain = Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:2], []), tmp_path / "plain")
    assert "decontaminate" not in plain.manifest.made_from["documents"]
    assert "test_sets" not in json.loads((tmp_path / "plain/corpus.json").read_bytes())
    Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:2], sets), tmp_path / "out")
    write_set(tmp_path, ROWS[1:])
    with pytest.raises(MismatchError):
        Corpus.build(recipe(tmp_path / "in", DOCUMENTS[:2], sets), tmp_path / "out")


def test_forms_of_test_sets(tmp_path: Path) -> None:
    rows = [{"q": QUESTION, "choices": [OTHER, "はい"]}, {"q": None, "choices": []}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    (tmp_path / "t.tsv").write_text(f"n\tq\n1\t{QUESTION}\n", encoding="utf-8")
    (tmp_path / "t.data").write_text(f"n;q\n1;{QUESTION}\n", encoding="utf-8")
    sets: list[dict[str, Any]] = [
        {"name": "a", "paths": [str(tmp_path / "t.parquet")], "fields": ["q", "choices"]},
        {"name": "b", "paths": [write_set(tmp_path, rows)], "fields": ["q", "choices"]},
        {"name": "c", "paths": [str(tmp_path / "t.tsv")], "fields": ["q"]},
        {"name": "d", "paths": [str(tmp_path / "t.data")], "fields": ["q"], "reader": {"use": "csv", "separator": ";"}},
    ]
    corpus = Corpus.build(recipe(tmp_path / "in", [QUESTION, QUESTION + OTHER], sets), tmp_path / "out")
    assert [(each.items, each.not_checked, each.found, each.documents) for each in corpus.manifest.test_sets] == [
        (2, 1, 1, 1), (2, 1, 1, 1), (1, 0, 1, 2), (1, 0, 1, 2),
    ]  # fmt: skip
    assert [item.not_checked for item in found_items(corpus)] == ["", "no_text", "", "no_text", "", ""]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    good = write_set(tmp_path, ROWS)
    (tmp_path / "t.txt").write_text(QUESTION, encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text("{", encoding="utf-8")
    cases = [
        (ConfigError, "unknown kind", {"paths": [str(tmp_path / "t.txt")]}),
        (ConfigError, "no file", {"paths": [str(tmp_path / "absent.jsonl")]}),
        (ConfigError, "pipe", {"paths": ["-"], "reader": "jsonl"}),
        (InputError, "JSON", {"paths": [str(tmp_path / "bad.jsonl")]}),
        (ConfigError, "length", {"paths": [good], "fields": []}),
        (ConfigError, "test set", {"paths": [good], "name": "a/b"}),
    ]
    for kind, what, keys in cases:
        test_set = {"name": "quiz", "fields": ["question"], **keys}
        with pytest.raises(kind, match=what):
            Corpus.build(recipe(tmp_path / "in", DOCUMENTS, [test_set]), tmp_path / "out")


def test_damaged_lists_are_noticed(tmp_path: Path) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"]}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets), tmp_path / "out")
    [file] = corpus.manifest.test_items
    (corpus.folder / file.path).write_bytes(b"")
    assert [damage.path for damage in corpus.verify()] == [file.path]
    with pytest.raises(DamagedError) as error:
        found_items(corpus)
    assert error.value.fix == rebuild_fix(corpus.folder)


def test_stats_and_why_show_items(tmp_path: Path, jprep: Run) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "id": "qid"}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets), tmp_path / "out")
    text = jprep("corpus", "stats", corpus.folder).stdout
    assert "test set quiz (drop)" in text and "test_items/quiz.jsonl" in text
    assert json.loads(jprep("corpus", "stats", corpus.folder, "--json").stdout)["test_sets"][0]["found"] == 2
    for query, shown in (
        ("quiz:q2", "was found in s:4 (100%)"),
        ("quiz:q3", "was not checked: too_short"),
        ("s:3", "was rejected by decontaminate.quiz: test_item  'quiz:q1'"),
    ):
        assert shown in jprep("corpus", "why", corpus.folder, query).stdout
    assert json.loads(jprep("corpus", "why", corpus.folder, "quiz:q2", "--json").stdout)[0]["documents"] == ["s:4"]
    failed = jprep("corpus", "why", corpus.folder, "quiz:q99", code=2).stderr
    assert "no item of a test set that was found or not looked for has this id" in failed
