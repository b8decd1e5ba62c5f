"""FineWeb2's measures, against values counted by hand and plain references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.published.fineweb2 import PUNCTUATION, SENTENCE_TERMINALS, FineWeb2Lines
from jprep.corpus.signals.published.fineweb2_words import (
    FineWeb2Words,
    duplicate_ngram_characters,
    split_pieces,
    top_ngram_characters,
)
from jprep.corpus.step import Signal


def measured(signal: Signal, *texts: str) -> dict[str, list[float]]:
    batch = TextBatch([Document(str(index), "s", "", "", text) for index, text in enumerate(texts)])
    found = signal.measure(batch)
    assert tuple(found) == signal.columns
    return {name.removeprefix("fineweb2_"): values.tolist() for name, values in found.items()}


def lines(text: str) -> dict[str, float]:
    return {name: values[0] for name, values in measured(FineWeb2Lines(), text).items()}


def test_duplicates_are_of_lines_between_runs_of_line_feeds() -> None:
    assert lines("甲\n\n\n甲\n乙\n甲\n")["duplicate_line_share"] == 2 / 5


def test_a_line_is_terminated_by_a_mark_at_its_very_end() -> None:
    assert lines("一。\n二！\n三。 \n四\n \n五…\n六」\n七.")["terminated_line_share"] == 3 / 7


def test_duplicate_characters_are_of_all_but_line_feeds() -> None:
    assert lines("あい\n  \nあい\n  \nう")["duplicate_character_share"] == 2 / 9


def test_bullets_and_ellipses_stand_at_the_ends_of_lines() -> None:
    found = lines("- 甲\n  • 乙\n・丙…\n丁... \u3000")
    assert (found["bullet_line_share"], found["ellipsis_line_share"]) == (1 / 2, 1 / 2)


def test_an_empty_text_has_no_shares() -> None:
    assert set(lines("").values()) == {0.0}
    assert measured(FineWeb2Lines()) == {name: [] for name in lines("")}


def test_marks_of_japanese_are_among_the_marks() -> None:
    assert set("。．！？｡.!?") <= SENTENCE_TERMINALS
    assert not set("」…、") & SENTENCE_TERMINALS
    assert set("」…、") < PUNCTUATION


@given(st.lists(st.sampled_from(["あ", "い", "うえ"]), max_size=12), st.integers(2, 4))
def test_the_most_frequent_ngram_is_the_first_of_several(words: list[str], size: int) -> None:
    ngrams = [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)]
    best = max(ngrams, key=ngrams.count, default="")
    assert top_ngram_characters(words, size) == len(best) * ngrams.count(best)


@pytest.mark.parametrize(("words", "found"), [("abab", 2), ("aaaa", 2), ("aaaaa", 4), ("abcab", 2), ("a", 0)])
def test_the_search_for_duplicates_goes_on_behind_one(words: str, found: int) -> None:
    assert duplicate_ngram_characters(list(words), 2) == found


@pytest.mark.parametrize(
    "text", ["", "短い。", "あ" * 50_000, "a" * 90_000, "あa𠮷" * 20_000, "a" * 40_000 + "𠮷" * 20_000]
)
def test_pieces_are_the_whole_text_and_none_is_too_long(text: str) -> None:
    pieces = list(split_pieces(text))
    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= 40_000 for piece in pieces)
    assert all(len(piece.encode()) > 40_000 - 10 * 4 for piece in pieces[:-1])


def test_words_are_those_of_sudachi() -> None:
    pytest.importorskip("sudachipy")
    signal = FineWeb2Words(FineWeb2Words.Config(stop_words=["の", "は", "年"]))
    found = measured(signal, "東京の空は青い。\n# 東京の空は…")
    per_word = {"hashes_per_word": 1, "ellipses_per_word": 1, "alphabetic_word_share": 9, "line_feeds_per_word": 1}
    assert {name: found[name][0] for name in per_word} == {name: count / 12 for name, count in per_word.items()}
    assert (found["words"], found["mean_word"], found["stop_words"]) == ([9], [12 / 9], [2])
    assert found["top_2gram_share"] == [len("東京 の") * 2 / 17]


def test_a_text_that_sudachi_refuses_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sudachipy")
    signal = FineWeb2Words()
    monkeypatch.setattr(signal._analyzer, "mark", lambda text: 1 / 0)
    found = measured(signal, "東京。")
    assert all(values != values for (values,) in found.values())
    assert signal.tally["unanalyzed"] == 1
