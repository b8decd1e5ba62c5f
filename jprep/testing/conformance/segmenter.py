"""Conformance tests for segmenters: lossless, order-preserving, independent of earlier calls.

A plugin's test subclasses the suite and gives it the segmenter:

    class TestShout(SegmenterSuite):
        @pytest.fixture
        def segmenter(self):
            return Shout()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jprep.corpus.document import WORD
from jprep.corpus.step import Segmenter
from jprep.testing.conformance.step import is_identifier

SENTENCES = (
    "すもももももももものうち。",
    "彼女は図書館で本を読んでいた。",
    "ＪＲ東日本の１２３系電車",
    "Pythonは1991年に公開された。",
    "今日 は いい 天気 です 。",
)

HARD = (
    "",
    "東京 タワー",
    "  行頭と行末  ",
    "\t欄\t",
    "全角\u3000の　空白\u3000",
    "二つ\u3000\u3000の全角\u3000 \u3000空白",
    " ",
    "\u3000",
    "こんにちは(^ ^)",
    "# 注釈ではない",
    "# ",
    "#",
    "前\0後",
    "\0",
    "復帰\r改頁\x0c垂直\x0b",
    "\x01制御\x7f",
    "\x03",
    "末尾\x03",
    "家族👨\u200d👩\u200d👧\u200d👦と👍🏽🇯🇵",
    "か\u3099き\u309a葛\U000e0100城",
    "\ufeff先頭",
    "不可分\u00a0空白\u200b零幅",
    "\"引用\" 'q' \\ back \\␣",
    "EOS",
    "@ あ",
    "ｶﾞｷﾞｸﾞ ハンカク",
    "مرحبا สวัสดี 안녕",
    "\uffff\U0010ffff",
    "２行\nの文",
    "そう……と‥。⁉㍿㌔\ufdfa",
)

LONG = (
    "あ" * 5_000,
    "ア" * 5_000,
    "漢" * 5_000,
    "x" * 20_000,
    "ー" * 3_000,
    "っ" * 3_000,
    "Ж" * 3_000,
    "1" * 70_000,
    " " * 70_000 + "後",
    "長い文は、どこかで切られる。" * 5_000,
    "# " * 2_000,
)


class SegmenterSuite:
    """Subclass it and define a fixture `segmenter`."""

    def test_has_a_name_and_a_version(self, segmenter: Segmenter) -> None:
        """Recipes use the name, fingerprints use the version."""
        assert is_identifier(segmenter.name)
        assert isinstance(segmenter.version, int)
        assert segmenter.version >= 1

    def test_marks_words(self, segmenter: Segmenter) -> None:
        """A segmenter that never splits a sentence declares `marks = False`."""
        marked = [words for words in segmenter.segment(SENTENCES) if WORD in words]
        assert bool(marked) == segmenter.marks, f"{len(marked)} of {len(SENTENCES)} sentences were segmented"

    def test_plain_sentences_are_lossless(self, segmenter: Segmenter) -> None:
        """Deleting U+001F from the words gives each sentence."""
        check(segmenter, SENTENCES)

    def test_difficult_sentences_are_lossless(self, segmenter: Segmenter) -> None:
        """White space, control characters, joined emoji, text that looks like a comment."""
        check(segmenter, HARD)

    def test_long_sentences_are_lossless(self, segmenter: Segmenter) -> None:
        """No sentence and no run of one script is too long."""
        check(segmenter, LONG)

    def test_no_word_is_empty(self, segmenter: Segmenter) -> None:
        """No mark is at an edge or beside another."""
        for words in segmenter.segment([*SENTENCES, *HARD]):
            assert not words or all(words.split(WORD)), repr(words)

    def test_unsegmentable_sentences_are_returned_and_counted(self, segmenter: Segmenter) -> None:
        """A lone surrogate or an existing mark does not affect other sentences."""
        segmenter.tally.clear()
        bad = ["壊れた\ud800文", f"印の{WORD}ある文"]
        first, *others, last = segmenter.segment([bad[0], *SENTENCES, bad[1]])
        assert [first, last] == bad
        assert others == segmenter.segment(SENTENCES)
        counted = sum(count for name, count in segmenter.tally.items() if name.startswith("unsegmented."))
        assert counted == 2 or not segmenter.marks  # a segmenter that never splits has nothing to count

    def test_an_empty_batch_gives_an_empty_list(self, segmenter: Segmenter) -> None:
        """An empty batch is valid."""
        assert segmenter.segment([]) == []

    def test_equal_sentences_have_equal_words(self, segmenter: Segmenter) -> None:
        """At any position in a batch, alone, and in repeated calls."""
        texts = [text for text in SENTENCES for _ in range(3)]
        batch = segmenter.segment(texts)
        assert len(batch) == len(texts)
        assert batch == segmenter.segment(texts)
        assert batch == [segmenter.segment([text])[0] for text in texts]
        assert batch[::-1] == segmenter.segment(texts[::-1])

    def test_provenance_is_names_and_values(self, segmenter: Segmenter) -> None:
        """It must not change between calls: it enters fingerprints."""
        found = segmenter.provenance()
        assert found == segmenter.provenance()
        assert all(isinstance(part, str) and part for pair in found.items() for part in pair)


def check(segmenter: Segmenter, texts: Sequence[str]) -> None:
    """Assert that every sentence is segmented without loss, in order, without empty words, and that none is refused."""
    segmenter.tally.clear()
    marked = segmenter.segment(texts)
    assert len(marked) == len(texts)
    for text, words in zip(texts, marked, strict=True):
        assert words.replace(WORD, "") == text, f"{words[:80]!r} is not {text[:80]!r}"
        assert not text or all(words.split(WORD)), f"an empty word in {words[:80]!r}"
    assert not segmenter.tally, dict(segmenter.tally)


def word_f1(gold: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """Micro-averaged F1 of word spans.

    Args:
        gold: the words of each sentence.
        found: an analyser's words of the same sentences.
    """
    both = total = 0
    for right, guess in zip(gold, found, strict=True):
        a, b = _spans(right), _spans(guess)
        both += len(a & b)
        total += len(a) + len(b)
    return 2 * both / total


def _spans(words: Sequence[str]) -> set[tuple[int, int]]:
    ends, at = set(), 0
    for word in words:
        ends.add((at, at + len(word)))
        at += len(word)
    return ends
