"""Filters: what they count, what they drop and why."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, Verdict
from jprep.corpus.filters.document import JapaneseFilter, LengthFilter, SymbolFilter, UrlFilter
from jprep.corpus.filters.lines import RepeatedLinesFilter, SentenceEndFilter
from jprep.corpus.filters.profile import profile
from jprep.testing.conformance.filter import FilterSuite, document

ARTICLE = "東京は日本の首都である。人口は約1,400万人で、世界有数の都市だ。\n\n== 歴史 ==\n江戸と呼ばれた。"
REVIEW = "駅から近くて便利でした！！\nまた泊まりたいです(^^)"
CHAT = "こんにちは\nこんにちは！\n今日は暑いですね\nそうですね〜"
LYRIC = "\n".join(["海は広いな", "大きいな。", "月がのぼるし", "日が沈む。"])
HARMLESS = (ARTICLE, REVIEW, CHAT, LYRIC)


def judge(kind, text: str, words: str = "", **options) -> Verdict:
    doc = msgspec.structs.replace(document(text), words=words)
    return kind(msgspec.convert(options, kind.Config)).judge(doc)


class TestLengthConforms(FilterSuite):
    step = LengthFilter
    kept = HARMLESS
    dropped = ("短い。", "")


class TestJapaneseConforms(FilterSuite):
    step = JapaneseFilter
    kept = HARMLESS
    dropped = (
        "The quick brown fox jumps over 犬。",
        "北京是中华人民共和国的首都，位于华北平原北部。",
        "한국어 문장입니다. カナ",
    )


class TestSymbolsConforms(FilterSuite):
    step = SymbolFilter
    kept = HARMLESS
    dropped = ("■□◆◇★☆→←↑↓お得", "！！！！！！！？？？？えっ", "2020 1234 5678 3333 電話")


class TestUrlsConforms(FilterSuite):
    step = UrlFilter
    kept = (*HARMLESS, "詳しくは公式サイト https://example.com/ を見てください。予約は電話でも受け付けています。")
    dropped = ("リンク集 https://example.com/a www.example.jp/b http://example.org/c", "http://example.com/a?b=c 見て")


class TestSentenceEndConforms(FilterSuite):
    step = SentenceEndFilter
    kept = HARMLESS
    dropped = ("\n".join(f"メニュー{i}" for i in range(10)),)


class TestRepeatedLinesConforms(FilterSuite):
    step = RepeatedLinesFilter
    kept = HARMLESS
    dropped = ("同じ\n" * 5 + "違う", "短い\n二度ある、とても長い行\n別\nまた\n二度ある、とても長い行")


class TestProfile:
    def test_counts_each_kind(self):
        counts = profile("漢字々𠮷 ひらカナーｶﾅ\nＡbé ９1 、。「」 ★😀① 한\u3000я\u200b")
        assert counts._asdict() == {
            "kana": 7, "kanji": 4, "latin": 3, "digit": 2, "punctuation": 4, "symbol": 3, "other": 2, "visible": 25,
        }  # fmt: skip

    @settings(deadline=None)
    @given(st.text())
    def test_every_visible_character_counts_once(self, text):
        counts = profile(text)
        assert sum(counts) == 2 * counts.visible
        categories = [unicodedata.category(char) for char in text if char < "\U00010000"]
        assert len(text) - counts.visible == sum(c[0] in "ZCM" and c != "Co" for c in categories)

    @settings(deadline=None)
    @given(st.text(), st.text())
    def test_counts_add_up(self, one, two):
        assert list(profile(one + two)) == [a + b for a, b in zip(profile(one), profile(two), strict=True)]


def test_length_counts_characters_and_sentences():
    assert judge(LengthFilter, "あ" * 10).keep
    assert judge(LengthFilter, "あ" * 9) == Verdict(False, "too_short")
    assert judge(LengthFilter, "あ" * 21, max_chars=20) == Verdict(False, "too_long")
    words = f"一つ目の文。{SENTENCE}二つ目の文。\n三つ目。"
    text = words.replace(SENTENCE, "")
    assert judge(LengthFilter, text, words, min_sentences=3).keep
    assert judge(LengthFilter, text, words, min_sentences=4) == Verdict(False, "few_sentences")
    assert judge(LengthFilter, text, min_sentences=3) == Verdict(False, "few_sentences")


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (JapaneseFilter, "This is English. これ", "foreign"),
        (JapaneseFilter, "北京是中国的首都", "few_kana"),
        (SymbolFilter, "■■■■■あ", "symbols"),
        (SymbolFilter, "。。。。。あ", "punctuation"),
        (SymbolFilter, "12345あ", "digits"),
        (UrlFilter, "https://example.com/ あ", "urls"),
    ],
)
def test_reasons(kind, text, reason):
    assert judge(kind, text) == Verdict(False, reason)


def test_shares_are_limits_that_may_be_reached():
    assert judge(SymbolFilter, "★ああああ", max_symbols=0.2).keep
    assert not judge(SymbolFilter, "★★ああああ", max_symbols=0.2).keep
    assert judge(JapaneseFilter, "ああaa", min_japanese=0.5, min_kana=0.5).keep


def test_an_address_ends_where_japanese_begins():
    text = "https://example.com/x は" + "長い説明の文が続きます。" * 8
    assert judge(UrlFilter, text).keep
    assert judge(UrlFilter, text * 2, max_per_1000=5) == Verdict(False, "urls")
    assert judge(UrlFilter, text, max_per_1000=0).keep


class TestSentenceEnd:
    def test_drops_lines_by_their_place(self):
        text = "見出し\n文が終わる。\n\nメニュー\n本当？ \n"
        assert judge(SentenceEndFilter, text, drop_lines=True) == Verdict(True, "no_sentence_end", (0, 3))
        assert judge(SentenceEndFilter, text) == Verdict(True)

    def test_nothing_but_such_lines_drops_the_document(self):
        assert judge(SentenceEndFilter, "見出し\nメニュー", drop_lines=True) == Verdict(False, "no_sentence_end")

    def test_marks_can_be_chosen(self):
        text = "\n".join(["終わりだ♪"] * 10)
        assert judge(SentenceEndFilter, text).keep
        assert not judge(SentenceEndFilter, text, marks="。").keep


class TestRepeatedLines:
    def test_drops_all_but_the_first(self):
        text = "一\n\n二は長い行です\n一\n\n三は長い行です\n四\n一"
        assert judge(RepeatedLinesFilter, text, drop_repeats=True) == Verdict(True, "repeated_lines", (3, 7))
        assert judge(RepeatedLinesFilter, text) == Verdict(True)

    def test_blank_lines_are_no_repeats(self):
        assert judge(RepeatedLinesFilter, "一\n\n\n\n\n\n二").keep

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(["", "ああ", "い", "うううう"])))
    def test_what_is_dropped_leaves_each_line_once(self, lines):
        verdict = judge(RepeatedLinesFilter, "\n".join(lines), drop_repeats=True, max_lines=1.0, max_chars=1.0)
        left = [line for index, line in enumerate(lines) if index not in verdict.lines and line]
        assert left == list(dict.fromkeys(line for line in lines if line))
