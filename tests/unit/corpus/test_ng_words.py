"""The signal `ng_words`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.words.lists import CATEGORIES, shipped_list
from jprep.corpus.signals.words.matching import WordMatcher
from jprep.errors import ConfigError, InputError


def _measure(texts: list[str], **options: Any) -> dict[str, list[float]]:
    docs = [Document(id=str(number), source="s", title="", url="", text=text) for number, text in enumerate(texts)]
    signal = make_step("signal", {"use": "ng_words", **options})
    measured = signal.measure(TextBatch(docs))
    assert tuple(measured) == signal.columns
    return {name: values.tolist() for name, values in measured.items()}


def _list(tmp_path: Path, content: str | bytes, name: str = "mine.txt") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _mine(tmp_path: Path, words: str, texts: list[str], min_words: int = 1) -> dict[str, list[float]]:
    options = {"categories": [], "lists": [_list(tmp_path, words)], "min_words": min_words}
    return _measure(texts, **options)


def test_share_and_different_words_are_counted(tmp_path: Path) -> None:
    found = _mine(tmp_path, "赤い花\n白鳥\n", ["赤い花と赤い花", "赤い花と白鳥", "青い花"])
    assert found == {"ng_mine_words": [1, 2, 0], "ng_mine_share": [6 / 7, 5 / 6, 0]}


def test_a_share_counts_from_a_number_of_different_words(tmp_path: Path) -> None:
    found = _mine(tmp_path, "赤い花\n白鳥\n", ["赤い花と赤い花", "赤い花と白鳥"], min_words=2)
    assert found["ng_mine_share"] == [0, 5 / 6]
    assert found["ng_mine_words"] == [1, 2]


def test_an_empty_text_has_no_measure(tmp_path: Path) -> None:
    found = _mine(tmp_path, "白鳥\n", ["", "白鳥"])
    assert np.isnan([values[0] for values in found.values()]).all()
    assert [values[1] for values in found.values()] == [1, 1]


def test_of_words_within_words_the_longest_counts(tmp_path: Path) -> None:
    assert _mine(tmp_path, "白鳥\n白鳥座\n大白鳥座\n", ["大白鳥座"]) == {"ng_mine_words": [1], "ng_mine_share": [1]}


def test_characters_of_overlapping_words_count_once(tmp_path: Path) -> None:
    assert _mine(tmp_path, "白い鳥\n鳥の子\n", ["白い鳥の子"]) == {"ng_mine_words": [2], "ng_mine_share": [1]}


def test_words_do_not_cross_documents_and_lines(tmp_path: Path) -> None:
    assert _mine(tmp_path, "白鳥\n", ["白", "鳥", "白\n鳥"])["ng_mine_words"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "number"),
    [("ハト", 1), ("ハトが", 1), ("ハトヤ", 0), ("アハト", 0), ("ハト・ハト", 1), ("ハトー", 0), ("白ハト", 1)],
)
def test_words_of_katakana_stand_alone(tmp_path: Path, text: str, number: int) -> None:
    assert _mine(tmp_path, "ハト\n", [text])["ng_mine_words"] == [number]


@pytest.mark.parametrize(("text", "number"), [("spam", 1), ("SPAMを", 1), ("spammer", 0), ("xspam", 0), ("spam2", 0)])
def test_words_of_letters_stand_alone_in_any_case(tmp_path: Path, text: str, number: int) -> None:
    assert _mine(tmp_path, "Spam\nSPAM\n", [text])["ng_mine_words"] == [number]


def test_a_list_of_a_known_category_extends_it(tmp_path: Path) -> None:
    mine = _list(tmp_path, "白鳥\n", "adult.txt")
    found = _measure(["白鳥とエロ動画"], categories=["adult"], lists=[mine], min_words=1)
    assert found == {"ng_adult_words": [2], "ng_adult_share": [6 / 7]}


def test_comments_blank_lines_and_a_byte_order_mark_are_no_words(tmp_path: Path) -> None:
    found = _mine(tmp_path, "\ufeff# 白い花\n\n  白鳥  \r\n", ["白い花", "白鳥"])
    assert found["ng_mine_words"] == [0, 1]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"\x93\xfa\x96\x7b\n", "mine.txt", "not UTF-8 at byte 0"),
        ("白鳥\n鳥\n", "mine.txt", "fewer than 2 characters"),
        ("白鳥\n", "my-list.txt", "is not a category"),
        ("# nothing\n", "mine.txt", "no words"),
    ],
)
def test_a_bad_list_is_refused(tmp_path: Path, content: str | bytes, name: str, message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        _measure(["白鳥"], categories=[], lists=[_list(tmp_path, content, name)])


def test_a_missing_list_and_an_unknown_category_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        _measure(["白鳥"], lists=[str(tmp_path / "none.txt")])
    with pytest.raises(ConfigError, match="no category 'birds'"):
        _measure(["白鳥"], categories=["birds"])


def test_the_content_of_a_list_enters_the_fingerprint_and_its_path_does_not(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [_list(tmp_path, "白鳥\n"), _list(tmp_path / "other", "白鳥\n"), _list(tmp_path, "白鳥座\n", "mine2.txt")]
    keys = [make_step("signal", {"use": "ng_words", "lists": [path]}).key for path in paths]
    assert keys[0] == keys[1] != keys[2]


@given(
    st.lists(st.text("あいアイab１漢", min_size=2, max_size=4), min_size=1, max_size=6, unique=True),
    st.lists(st.text("あいアイab１漢\n", max_size=40), max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_words_are_found_where_a_regular_expression_finds_them(words: list[str], texts: list[str]) -> None:
    joined = "".join(text + "\n" for text in texts)
    batch = TextBatch([Document(id="", source="", title="", url="", text=text) for text in texts])
    found = WordMatcher(words).find(batch.codes) if texts else None
    expected = set()
    for number, word in enumerate(words):
        before = "(?<![a-z0-9])" if word[0] in "ab" else "(?<![アイ])" if word[0] in "アイ" else ""
        after = "(?![a-z0-9])" if word[-1] in "ab" else "(?![アイ])" if word[-1] in "アイ" else ""
        for match in re.finditer(f"(?={before}{re.escape(word)}{after})", joined):
            expected.add((match.start(), match.start() + len(word), number))
    rows = set(zip(*(column.tolist() for column in found), strict=True)) if found else set()
    assert rows == expected


def test_a_word_is_found_at_the_edge_of_a_chunk() -> None:
    size = 1 << 15
    for place in range(size - 4, size + 2):
        codes = np.full(2 * size, ord("あ"), np.uint32)
        codes[place : place + 3] = [*map(ord, "白い鳥")]
        codes[-1] = 10
        assert WordMatcher(["白い鳥"]).find(codes).starts.tolist() == [place]


def test_articles_on_a_topic_stay_and_advertisements_do_not() -> None:
    article = (
        "アダルトビデオは、性的な内容を含む映像作品である。日本では1981年に最初の作品が発売された。業界団体による審査が行われ、"
        "出演者の契約や人権を守るための法律が2022年に成立した。作品の数は年間に数万本といわれる。"
    )
    spam = "無修正エロ動画が見放題！素人動画、人妻動画を今すぐダウンロード。無料会員登録はこちら。即日振込、審査なし"
    found = _measure([article, spam])
    assert found["ng_adult_share"][0] == 0
    assert found["ng_adult_share"][1] > 0.2
    assert found["ng_advertising_share"][1] > 0.2


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_lists_have_different_words_that_can_be_found(category: str) -> None:
    words = shipped_list(category).words
    assert len(words) > 30
    found = _measure(list(words), categories=[category], min_words=1)
    assert min(found[f"ng_{category}_words"]) == 1
