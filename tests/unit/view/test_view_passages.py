"""Passages, words between two characters, changes between two texts, and tokens."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.view.changes import Change, changed_lines, compare
from jprep.view.passage import PASSAGE, choose_passage, highlighted, passage_starts, words_between
from jprep.view.tokens import _pieces

TEXT = st.text("abあ\n")


@given(st.text(f"ab\n{WORD}{SENTENCE}"), st.integers(0, 20), st.integers(0, 20))
def test_words_of_a_passage_are_its_text(words: str, start: int, length: int) -> None:
    text = words.translate(UNMARK)
    found = words_between(words, start, start + length)
    assert found.translate(UNMARK) == text[start : start + length] and found in words


@given(TEXT, st.integers(2, 9))
def test_passages_cover_a_text(text: str, size: int) -> None:
    starts = [*passage_starts(text, size), len(text)]
    assert "".join(text[a:b] for a, b in pairwise(starts)) == text
    assert all(0 < b - a <= size for a, b in pairwise(starts)) or not text


def test_the_passage_of_a_hit_is_chosen() -> None:
    text = "あ" * (3 * PASSAGE) + "い"
    assert choose_passage(text, None, ["い"]).number == 3
    assert choose_passage(text, None, ["う"]).number == 0
    assert choose_passage(text, 99, []).number == 3 and choose_passage("", 5, []).total == 1


@given(TEXT, st.lists(st.text("abあ", min_size=1), max_size=3))
def test_highlighted_pieces_are_the_text(text: str, terms: list[str]) -> None:
    pieces = list(highlighted(text, terms))
    assert "".join(piece.text for piece in pieces) == text
    assert any(piece.hit for piece in pieces) == any(term in text for term in terms)


@given(TEXT, TEXT)
def test_changes_give_both_texts(before: str, after: str) -> None:
    changes = compare(before, after)
    assert "".join(text for kind, text in changes if kind != "added") == before
    assert "".join(text for kind, text in changes if kind != "removed") == after


def test_a_small_change_is_small_and_a_slow_comparison_is_avoided() -> None:
    assert compare("２０年 版", "20年版") == [
        Change("removed", "２０"), Change("added", "20"), Change("same", "年"), Change("removed", " "),
        Change("same", "版"),
    ]  # fmt: skip
    assert [kind for kind, _ in compare("ab" * 9000, "ba" * 9000)] == ["removed", "added"]


@given(st.lists(st.tuples(st.text("abｃ", max_size=3), st.booleans()), max_size=12), st.data())
def test_lines_of_passages_are_all_lines(lines: list[tuple[str, bool]], data: st.DataObject) -> None:
    before = "\n".join(line for line, _ in lines)
    normalized = before.replace("ｃ", "c")
    kept = [line.replace("ｃ", "c") for line, keep in lines if keep and line]
    cut = data.draw(st.integers(0, len(kept)))
    shown = []
    for first, last in ((0, cut), (cut, len(kept))):
        if first < last:
            found = changed_lines(before, normalized, "\n".join(kept), first, last)
            assert found is not None
            shown += found
    if kept:
        assert ["".join(t for kind, t in line.changes if kind != "added") for line in shown] == [
            s for s, _ in lines if s
        ]
        assert sum(not line.dropped for line in shown) == len(kept)


def test_texts_that_are_cut_are_compared_up_to_there() -> None:
    before, normalized = "ａ ａ\nｂ\nｃ ｃ", "aa\nb\ncc\nd"
    found = changed_lines(before[:6], normalized[:6], "aa\nb\ncc\nd\ne", 0, 1)
    assert found is not None and [line.dropped for line in found] == [False]


def test_other_lines_cannot_be_compared() -> None:
    assert changed_lines("a\nb", "a\nb", "a\nc", 0, 2) is None


def test_tokens_that_share_a_character_are_one_piece() -> None:
    pieces = list(_pieces("東京 ab", [5, 6, 7, 8], [(0, 1), (0, 1), (1, 2), (3, 4)]))
    assert [(piece.text, piece.ids) for piece in pieces] == [
        ("東", [5, 6]),
        ("京", [7]),
        (" ", []),
        ("a", [8]),
        ("b", []),
    ]
