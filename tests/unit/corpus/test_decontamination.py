"""Items of test sets that stand in documents are found, also when they are lightly edited; others are not."""

from __future__ import annotations

import gzip
import json
import pydoc
import random
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.decontamination.cutting import cut_sentences
from jprep.corpus.decontamination.edit_distance import edits_within, within_edits
from jprep.corpus.decontamination.findings import FoundItem
from jprep.corpus.decontamination.folding import fold, folded_places
from jprep.corpus.decontamination.search import BATCH, ItemSearch
from jprep.corpus.document import SENTENCE, UNMARK, Document, Tally
from jprep.corpus.reasons import describe_reason
from jprep.corpus.store import REBUILD
from jprep.errors import ConfigError, DamagedError, InputError, JprepError, MismatchError
from jprep.report.corpus.funnel import funnel
from tests.conftest import Run, digests

KANJI = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
KANA = [chr(code) for code in range(0x3042, 0x3093)]
QUESTION = "湖の水面が夕方に赤く見えるのは、どのような理由からですか。"
OTHER = "駅前の古い時計台を建てた大工の名前を一つ選びなさい。"
BEFORE, AFTER = "朝から雨が降っていた。", "傘を忘れた人が多かった。"


def sentence(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(KANA if rng.random() < 0.6 else KANJI) for _ in range(length))


def edited(rng: random.Random, text: str, edits: int) -> str:
    characters = list(text)
    for place in rng.sample(range(len(characters)), edits):
        characters[place] = rng.choice(["", "の", characters[place] + "は"])
    return "".join(characters)


def found(items: list[Any], texts: list[str]) -> set[tuple[int, int]]:
    search = ItemSearch([[item] if isinstance(item, str) else item for item in items])
    return {(each.document, each.item) for each in search.find(texts)}


@pytest.mark.parametrize("length", [10, 11, 12, 19, 20, 21, 60, 127, 129, 3000])
def test_planted_items_are_all_found_and_no_others(length: int) -> None:
    rng = random.Random(length)
    items = [sentence(rng, length) for _ in range(60)]
    texts = [sentence(rng, 300) + item + sentence(rng, 200) for item in items[:30]]
    assert found(items, texts) == {(number, number) for number in range(30)}


@pytest.mark.parametrize(("shortest", "edits", "least"), [(15, 1, 0.95), (20, 2, 0.9), (30, 3, 0.98), (80, 5, 1.0)])
def test_lightly_edited_items_are_found(shortest: int, edits: int, least: float) -> None:
    rng = random.Random(edits)
    items = [sentence(rng, rng.randrange(shortest, 2 * shortest)) for _ in range(400)]
    texts = [sentence(rng, 50) + edited(rng, item, edits) + sentence(rng, 50) for item in items]
    assert sum(document == item for document, item in found(items, texts)) >= least * 400


def test_width_case_spaces_and_punctuation_do_not_hide_an_item() -> None:
    item = "第３回ＡＢＣ大会は、２０２４年に「ガラス」の町で開かれました。"
    other = "第 3 回 abc 大会は２０２４ 年 に ｶﾞﾗｽ の 町 で、開かれました!"
    assert found([item], [f"前の文。{other}次の文。"])
    assert found(["株式会社ホシノが㍻の時代に作った三㎞の道です。"], ["株式会社ホシノが平成の時代に作った三kmの道です"])


def test_an_item_must_stand_in_one_place_of_a_document() -> None:
    rng = random.Random(3)
    item = sentence(rng, 96)
    scattered = "".join(item[start : start + 16] + sentence(rng, 100) for start in range(0, 96, 16))
    assert not found([item], [scattered])


def test_all_parts_of_an_item_are_needed_in_any_order() -> None:
    rng = random.Random(4)
    one, other = sentence(rng, 30), sentence(rng, 30)
    items = [[one, other], [one, sentence(rng, 30)], [one, "はい"]]
    assert found(items, [other + sentence(rng, 100) + one]) == {(0, 0), (0, 2)}
    short = [["犬が公園で走っています", "動物が外で遊んでいます"], ["犬が公園で走っています", "猫が家の中で寝ています"]]
    assert found(short, ["動物が外で遊んでいます。犬が公園で走っています。"]) == {(0, 0)}


def test_what_is_not_looked_for_is_told() -> None:
    frame = "次の文章を読んで答えを選びなさい"
    search = ItemSearch([["空は青い"], [frame], ["ああああああああああ" * 20], ["空は青いかな", "はいそうだ"]])
    assert search.compared.tolist() == [0, len(frame), 0, 0]
    assert search.characters.tolist() == [0, len(frame), 200, 0]


def test_phrases_of_a_test_set_do_not_count() -> None:
    rng = random.Random(5)
    frame = "次の文章を読んで質問に対する答えを一つだけ選びなさい"
    assert not found([frame + sentence(rng, 20) for _ in range(200)], [frame + "。" + sentence(rng, 500)])


def test_items_of_long_documents_are_found_in_every_place() -> None:
    rng = random.Random(6)
    items = [sentence(rng, 300) for _ in range(8)]
    text = "".join(sentence(rng, BATCH // 5) + item for item in items)
    search = ItemSearch([[item] for item in items])
    findings = search.find(["", text, ""])
    assert [(each.document, each.item) for each in findings] == [(1, number) for number in range(8)]
    assert [text[slice(*each.spans[0])] for each in findings] == items


@pytest.mark.parametrize("length", [120, 1000, 6000])
@pytest.mark.parametrize("held", [slice(0, 0.7), slice(0.3, 1), slice(0, 1)])
def test_only_the_characters_of_an_item_are_in_its_place(length: int, held: slice) -> None:
    rng = random.Random(length)
    item, before = sentence(rng, length), sentence(rng, 300)
    own = item[int(held.start * length) : int(held.stop * length)]
    [found] = ItemSearch([[item]]).find([before + own + sentence(rng, 300)])
    assert found.spans == ((300, 300 + len(own)),)


def test_deleted_characters_do_not_move_the_place_of_an_item() -> None:
    rng = random.Random(7)
    for length in (100, 2000):
        item, before = sentence(rng, length), sentence(rng, 400)
        own = item[: length // 2] + item[length // 2 + length // 12 :]
        [found] = ItemSearch([[item]]).find([before + own + sentence(rng, 300)])
        assert found.spans == ((400, 400 + len(own)),)


def test_edits_at_the_ends_belong_to_the_place_of_an_item() -> None:
    rng = random.Random(8)
    item = sentence(rng, 400)
    own = item[:6] + "は" + item[7:-7] + "は" + item[-6:]
    [found] = ItemSearch([[item]]).find([sentence(rng, 50) + own + sentence(rng, 50)])
    assert found.spans == ((50, 450),)


def test_a_document_is_folded_once_for_all_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = list[str]()
    monkeypatch.setattr(
        "jprep.corpus.decontamination.search.folded_places",
        lambda text: folded.append(text) or folded_places(text),
    )
    rng = random.Random(10)
    items = [sentence(rng, 40) for _ in range(50)]
    texts = ["。".join(items[:30]), "。".join(items[20:])]
    findings = ItemSearch([[item] for item in items]).find(texts)
    assert [texts[each.document][slice(*each.spans[0])] for each in findings] == items[:30] + items[20:]
    assert folded == texts


@pytest.mark.parametrize("run", ["あ", "ハハヒ", "wara"])
def test_runs_take_little_memory_and_are_found(run: str) -> None:
    rng = random.Random(11)
    items = [sentence(rng, 15) + (run * 20)[:20] + sentence(rng, 15) for _ in range(4)]
    items += [sentence(rng, 15) + (run * 8)[:8] + sentence(rng, 15) for _ in range(10)]
    search = ItemSearch([[item] for item in items])
    tracemalloc.start()
    findings = search.find([run * (100_000 // len(run)), items[3], items[1] + run * 4, items[7]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(each.document, each.item) for each in findings if each.document] == [(1, 3), (2, 1), (3, 7)]
    assert peak < 50 << 20


def test_hostile_items_and_documents() -> None:
    strange = ["", " ", "\x00" * 50, "\ud800" * 50, "。" * 50, "𠮷" * 30, "あ" * 30]
    texts = ["", "\x00", "\ud800あ", "あ" * 5, "𠮷" * 30, "い\x00" * 20]
    assert found(strange, texts) == {(4, 5)}
    assert ItemSearch([]).find(texts) == []
    assert ItemSearch([[]]).find(texts) == []


TEXTS = st.text(st.sampled_from("あいうｶﾞ㍻Ａb。 \n\x00㌔𠮷ß"), max_size=40)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_folded_places_are_those_of_the_characters(text: str) -> None:
    text = text.replace("\x00", " ")
    places = folded_places(text).tolist()
    assert len(places) == len(fold(text))
    assert places == [place for place, character in enumerate(text) for _ in fold(character)]


def distance(pattern: str, text: str) -> int:
    row = [0] * (len(text) + 1)
    for number, one in enumerate(pattern, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(text, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (one != other))
    return min(row)


@settings(max_examples=300, deadline=None)
@given(st.text("あいう", max_size=20), st.text("あいう", max_size=30))
def test_edits_are_those_of_the_plain_algorithm(pattern: str, text: str) -> None:
    one, other, edits = list(map(ord, pattern)), list(map(ord, text)), distance(pattern, text)
    assert edits_within(one, other) == edits
    assert [within_edits(one, other, most) for most in (edits - 1, edits)] == [False, True]


def test_sentences_are_cut_where_places_are() -> None:
    words = f"一つ目。{SENTENCE}二つ目。\n三つ目。\n四つ目。{SENTENCE}五つ目。"
    doc = Document("a", "s", "", "", words.translate(UNMARK), words)
    tally = Tally()
    start = doc.text.index("二つ")
    cut_sentences(doc, {"x": [(start, start + 6)], "y": [(start + 6, start + 7)]}, tally)
    assert (doc.text, doc.words) == ("一つ目。\n四つ目。五つ目。", f"一つ目。\n四つ目。{SENTENCE}五つ目。")
    assert tally == {
        "x.sentences_cut": 2,
        "x.characters_cut": 8,
        "y.sentences_cut": 1,
        "y.characters_cut": 4,
    }


@given(
    st.lists(st.text("あい", max_size=4), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
)
def test_each_sentence_that_overlaps_with_a_place_is_cut(sentences: list[str], places: list[tuple[int, int]]) -> None:
    words, spans = SENTENCE.join(sentences), [(start, start + size) for start, size in places]
    inside = {place for span in spans for place in range(*span)}
    starts = [sum(map(len, sentences[:number])) for number in range(len(sentences))]
    kept = [
        each for start, each in zip(starts, sentences, strict=True) if not inside & {*range(start, start + len(each))}
    ]
    doc = Document("a", "s", "", "", words.translate(UNMARK), words)
    cut_sentences(doc, {"x": spans}, Tally())
    assert doc.text == "".join(kept)


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
    monkeypatch.setattr("jprep.corpus.stages.read._GROUP", 1)


def found_items(corpus: Corpus) -> list[FoundItem]:
    return list(corpus.test_items())


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


def test_sentences_with_items_are_cut(tmp_path: Path) -> None:
    sets = [{"name": "quiz", "paths": [write_set(tmp_path, ROWS)], "fields": ["question"], "action": "cut"}]
    corpus = Corpus.build(recipe(tmp_path / "in", DOCUMENTS, sets), tmp_path / "out")
    assert [doc.text for doc in corpus] == [BEFORE + AFTER, BEFORE + AFTER, BEFORE, BEFORE]
    assert corpus.manifest.rejects == {"decontaminate.quiz/test_item": 1}
    assert corpus.manifest.counts["decontaminate.quiz.sentences_cut"] == 5
    assert corpus.manifest.counts["decontaminate.quiz.documents_cut"] == 4
    assert not list(corpus.verify())


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
    rows = [{"q": None, "a": ""}, {"q": "空は青いかな", "a": "はいそうだ"}, {"q": QUESTION, "a": ""}]
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
    assert error.value.fix == REBUILD


def test_index_is_a_few_bytes_for_each_character() -> None:
    rng = random.Random(9)
    items = [[sentence(rng, 100)] for _ in range(500)]
    index = ItemSearch(items)._index
    arrays = [value for value in vars(index).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 60 * 50_000


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
