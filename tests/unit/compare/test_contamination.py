"""Items that stand in training texts are found, others are not."""

import random
import shutil
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.compare.data.overlap import OverlapFinder
from jprep.corpus.api import Corpus
from jprep.corpus.decontamination.folding import BREAK, SEPARATOR, fold
from jprep.corpus.decontamination.ngrams import GRAM, gram_hashes, span_hash
from jprep.errors import DamagedError

KANJI = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
KANA = [chr(code) for code in range(0x3042, 0x3093)]


def sentence(rng, length):
    return "".join(rng.choice(KANA if rng.random() < 0.6 else KANJI) for _ in range(length))


def find(items, texts):
    finder = OverlapFinder([[item] if isinstance(item, str) else item for item in items])
    finder.read((f"text {number}", text) for number, text in enumerate(texts))
    return finder.overlaps()


def edited(rng, text, edits):
    characters = list(text)
    for place in rng.sample(range(len(characters)), edits):
        characters[place] = rng.choice(["", "の", characters[place] + "は"])
    return "".join(characters)


@pytest.mark.parametrize("length", [8, 9, 12, 19, 20, 21, 60, 3000])
def test_planted_items_are_all_found_and_clean_ones_are_not(length):
    rng = random.Random(length)
    items = [sentence(rng, length) for _ in range(100)]
    texts = [sentence(rng, 300) + item + sentence(rng, 200) for item in items[:50]]
    found = find(items, texts)
    assert [overlap.found for overlap in found] == [True] * 50 + [False] * 50
    assert [overlap.where for overlap in found[:50]] == [f"text {number}" for number in range(50)]
    assert all(overlap.share == 1 for overlap in found[:50])


def test_most_lightly_edited_items_are_found():
    rng = random.Random(1)
    items = [sentence(rng, rng.randrange(40, 200)) for _ in range(500)]
    for edits, least in ((1, 1.0), (2, 0.95), (3, 0.85)):
        texts = [sentence(rng, 50) + edited(rng, item, edits) + sentence(rng, 50) for item in items]
        assert np.mean([overlap.found for overlap in find(items, texts)]) >= least


def test_none_of_many_clean_items_is_found():
    rng = random.Random(2)
    phrases = [sentence(rng, 10) for _ in range(300)]  # phrases in common, as languages have them

    def text(length):
        return "".join(rng.choice(phrases) + sentence(rng, 3) for _ in range(length // 13))

    found = find([text(rng.randrange(26, 200)) for _ in range(10_000)], [text(20_000) for _ in range(20)])
    assert sum(overlap.found for overlap in found) <= 1


def test_width_case_spaces_and_punctuation_do_not_hide_an_item():
    item = "第３回ＡＢＣ大会は、２０２４年に「ガラス」の町で開かれました。"
    other = "第 3 回 abc 大会は２０２４ 年 に ｶﾞﾗｽ の 町 で、開かれました!"
    assert find([item], ["前の文。" + other + "次の文。"])[0].found
    assert find(["株式会社ホシノが㍻の時代に作った三㎞の道です。"], ["株式会社ホシノが平成の時代に作った三kmの道です"])[
        0
    ].found


def test_item_must_stand_in_one_text():
    rng = random.Random(3)
    item = sentence(rng, 100)
    halves = [item[start : start + 25] + sentence(rng, 100) for start in range(0, 100, 25)]
    assert not find([item], halves)[0].found
    assert find([item], halves)[0].share == pytest.approx(0.25)
    assert find([item], ["".join(halves)])[0].found


def test_short_items_must_stand_whole_and_the_shortest_cannot_be_told():
    found = find(["赤い鳥が枝で歌います", "青い鳥が枝で歌います", "鳥が歌う"], ["朝。赤い鳥が枝で歌います。鳥が歌う。"])
    assert [overlap.found for overlap in found] == [True, False, False]
    assert found[2].compared == 0


def test_both_parts_of_a_pair_count():
    rng = random.Random(4)
    one, other = sentence(rng, 30), sentence(rng, 30)
    found = find([[one, other], [one, sentence(rng, 30)]], [one + "\n" + other])
    assert [overlap.found for overlap in found] == [True, False]
    short = [["犬が公園で走っています", "動物が外で遊んでいます"], ["犬が公園で走っています", "猫が家の中で寝ています"]]
    assert [each.found for each in find(short, ["犬が公園で走っています。動物が外で遊んでいます。"])] == [True, False]


def test_phrases_of_the_task_itself_do_not_count():
    rng = random.Random(5)
    frame = "次の文章を読んで質問に対する答えを一つだけ選びなさい"
    items = [frame + sentence(rng, 14) for _ in range(200)]
    assert not any(overlap.found for overlap in find(items, [frame + "。" + sentence(rng, 500)]))


def test_equal_items_are_found_together():
    rng = random.Random(6)
    item = sentence(rng, 40)
    assert all(overlap.found for overlap in find([item] * 300, [item]))


def test_places_of_items_in_long_texts_do_not_matter():
    rng = random.Random(7)
    items = [sentence(rng, 400) for _ in range(30)]
    text = "".join(sentence(rng, 40_000) + item for item in items)
    assert all(overlap.share == 1 for overlap in find(items, [text]))
    assert all(overlap.found for overlap in find(items, ["あ" * 10_000_000 + text]))


def test_hostile_items_and_texts():
    strange = ["", " ", "\x00" * 50, "\ud800" * 50, "。" * 50, "𠮷" * 30, "あ" * 30]
    found = find(strange, ["", "\x00", "\ud800あ", "あ" * 5, "𠮷" * 30, "い\x00" * 20])
    assert [overlap.found for overlap in found] == [False] * 5 + [True, False]
    assert find([], ["あ"]) == []
    assert find([[]], ["あ" * 30])[0].compared == 0


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_folding_is_by_character(one, other):
    assert fold(one + BREAK + other).tolist() == [*fold(one).tolist(), int(SEPARATOR), *fold(other).tolist()]


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=60))
def test_folded_text_is_the_same_in_upper_and_lower_case_and_in_normal_form(text):
    folded = fold(text.replace(BREAK, "")).tolist()
    assert fold(unicodedata.normalize("NFKC", text.replace(BREAK, ""))).tolist() == folded
    assert fold(unicodedata.normalize("NFD", text.replace(BREAK, ""))).tolist() == folded


def test_hashes_of_ngrams_are_those_of_the_spans():
    characters = fold(sentence(random.Random(8), 50))
    grams = gram_hashes(characters)[1]
    assert grams.tolist() == [span_hash(characters[start : start + GRAM]) for start in range(50 - GRAM + 1)]


def test_documents_of_a_corpus_are_read_and_checked(corpus, tmp_path):
    mine = Corpus(shutil.copytree(corpus, tmp_path / "corpus"))
    document = max(mine, key=lambda each: len(each.text))
    finder = OverlapFinder([[document.text], ["ここにはない文章なので見つからないはずです"]])
    finder.read_corpus(mine)
    first, second = finder.overlaps()
    assert (first.found, first.where, second.found) == (True, document.id, False)
    part = mine.folder / mine.manifest.parts[0].path
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedError):
        finder.read_corpus(mine)
