"""The cheap signal of repetition, against a plain count of n-grams."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.repetition import RepetitionSignal


def measured(*texts: str, ngram: int = 8) -> list[float]:
    signal = RepetitionSignal(RepetitionSignal.Config(ngram=ngram))
    batch = TextBatch([Document(str(index), "s", "", "", text) for index, text in enumerate(texts)])
    return list(signal.measure(batch)["repeated_ngram_share"].tolist())


def plain(text: str, ngram: int) -> float:
    """Return the fraction of n-grams that occur again further behind, counted exactly in each window."""
    again = total = 0
    for start in range(0, len(text), 4096):
        window = text[start : start + 4096]
        counts = Counter(window[at : at + ngram] for at in range(len(window) - ngram + 1))
        total += counts.total()
        again += counts.total() - len(counts)
    return again / total if total else math.nan


@given(st.lists(st.text(st.sampled_from("あい漢𠮷。\n"), max_size=90), max_size=6), st.integers(1, 9))
def test_no_more_is_repeated_than_there_is(texts: list[str], ngram: int) -> None:
    for value, text in zip(measured(*texts, ngram=ngram), texts, strict=True):
        exact = plain(text, ngram)
        assert (math.isnan(value) and math.isnan(exact)) or 0 <= value <= exact


@given(st.lists(st.text(st.sampled_from("あい漢𠮷。\n"), max_size=60), min_size=1, max_size=6))
def test_a_value_does_not_depend_on_the_other_documents(texts: list[str]) -> None:
    alone = [measured(text)[0] for text in texts]
    assert repr(measured(*texts, "あ" * 70_000)[: len(texts)]) == repr(alone)


@pytest.mark.parametrize(
    "text",
    [
        "続きを読む\n" * 300,
        "".join(f"第{number}回の大会は{number * 7919 % 1000}人が参加した。" for number in range(900)),
        "".join(map(chr, range(0x4E00, 0x8E00))),
        "ああああ" * 5000,
    ],
)
def test_most_of_what_is_repeated_is_found(text: str) -> None:
    assert measured(text)[0] == pytest.approx(plain(text, 8), rel=0.15)


def test_texts_shorter_than_an_ngram_have_no_value() -> None:
    assert all(map(math.isnan, measured("", "七文字である。")))
    assert measured("八文字の文章だ。") == [0.0]
    assert measured() == []
