"""Items are found where they are, also when they are lightly edited, in bounded time and memory; others are not."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.decontamination.cutting import cut_sentences
from jprep.corpus.decontamination.edit_distance import edits_within, within_edits
from jprep.corpus.decontamination.folding import fold, folded_places
from jprep.corpus.decontamination.search import BATCH, ItemSearch
from jprep.corpus.document import SENTENCE, UNMARK, Document, Tally

KANJI = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
KANA = [chr(code) for code in range(0x3042, 0x3093)]


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
    search = ItemSearch([["空は"], [frame], ["ああああああああああ" * 20], ["空は青いかな", "はい"]])
    assert search.compared.tolist() == [0, len(frame), 0, 6]
    assert search.characters.tolist() == [0, len(frame), 200, 6]
    assert search.whole.tolist() == [True, False, False, True]


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


def test_white_space_that_a_cut_leaves_at_the_end_is_counted() -> None:
    words = f"Tokyo.  {SENTENCE}琵琶湖。\n次の行。"
    doc = Document("a", "s", "", "", words.translate(UNMARK), words)
    tally, before = Tally(), len(doc.text)
    cut_sentences(doc, {"x": [(8, 10)]}, tally)
    assert doc.text == "Tokyo.\n次の行。"
    assert tally["x.characters_cut"] == before - len(doc.text)


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


def test_index_is_a_few_bytes_for_each_character() -> None:
    rng = random.Random(9)
    items = [[sentence(rng, 100)] for _ in range(500)]
    index = ItemSearch(items)._regions._index
    arrays = [value for value in vars(index).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 60 * 50_000


@pytest.mark.parametrize("length", [11, 12, 13, 14, 15])
def test_an_edit_inside_of_a_short_item_does_not_hide_it(length: int) -> None:
    rng = random.Random(length)
    items = [sentence(rng, length) for _ in range(50)]
    edge = 0 if length >= 12 else 1
    for place in range(edge, length - edge):
        texts = list[str]()
        for item in items:
            edit = rng.choice(["", "の", item[place] + "は"])
            texts.append(sentence(rng, 40) + item[:place] + edit + item[place + 1 :] + "。" + sentence(rng, 40))
        assert found(items, texts) >= {(number, number) for number in range(50)}, place


def test_another_word_at_an_end_of_a_short_sentence_is_another_sentence() -> None:
    assert not found(["梨がたくさんありました。"], ["桃がたくさんありました。", "梨がたくさんありまして。"])


def test_two_edits_of_a_short_item_and_edits_across_documents_are_not_found() -> None:
    assert not found(["雪が降る町で暮らす黒猫"], ["雪も降る町に暮らす黒猫", "雪が降る町で", "暮らす黒猫"])
    assert not found(["雪が降る町で暮らす黒猫"], ["雪が降る町", "で暮らす黒猫"])


@pytest.mark.parametrize("text", ["首都は？", "問１：首都は？\n", "「首都は」と聞いた。", '{"q": "首都は？"}'])
def test_items_of_a_few_characters_are_found_as_whole_sentences(text: str) -> None:
    items = ["日本の首都は？", "「撮る」といえば？", "首都は？"]
    text = text.replace("首都", "日本の首都")
    assert found(items, [text, f"前の文。{text}後の文。", "隣で撮るといえば？"]) == {(0, 0), (1, 0)}
    assert found(items, ["日本の首都はどこ？", "今の日本の首都は？", "首都は？", "撮るといえば"]) == {(3, 1)}
    assert not found(["首都は？"], ["首都は？"])


def test_parts_that_many_items_have_are_not_items() -> None:
    rng = random.Random(12)
    order, questions = "次の文章を読んで質問に対する答えを一つだけ選びなさい", [sentence(rng, 14) for _ in range(100)]
    items = [[order, question] for question in questions]
    assert found(items, [order, order + questions[3]]) == {(1, 3)}
    assert found([[order]] * 100, [order]) == {(0, number) for number in range(100)}


@pytest.mark.parametrize("period", [1, 2, 7, 8, 11, 13, 20])
def test_texts_that_repeat_take_bounded_memory_and_few_matches(period: int) -> None:
    rng = random.Random(period)
    unit, planted = sentence(rng, period), sentence(rng, 40)
    text = unit * (60_000 // period)
    items = [(unit * 200)[start : start + length] for length in (10, 12, 15, 18, 40, 128, 2000) for start in range(3)]
    items += ["あ" * 10_000, sentence(rng, 15) + unit, planted]
    search = ItemSearch([[item] for item in items])
    tracemalloc.start()
    findings = search.find([text + planted + text])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(items) - 1 in {each.item for each in findings}
    assert peak < 50 << 20


def test_sentences_of_a_text_that_repeats_an_item_are_all_cut() -> None:
    rng = random.Random(13)
    shared = sentence(rng, 30)
    items = [shared + sentence(rng, 4) for _ in range(60)]
    text = "。".join([shared, sentence(rng, 2)] * 2000)
    assert {each.spans for each in ItemSearch([[item] for item in items]).find([text])} == {((0, len(text)),)}
