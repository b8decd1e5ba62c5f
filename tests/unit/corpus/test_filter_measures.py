"""What filters measure: a document is dropped exactly when a measure lies outside its threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.builtin import jprep_filters
from jprep.corpus.document import SENTENCE, Document
from jprep.corpus.filters.document import JapaneseFilter, LengthFilter, SymbolFilter, UrlFilter
from jprep.corpus.filters.lines import RepeatedLinesFilter, SentenceEndFilter
from jprep.corpus.filters.measures import fraction
from jprep.corpus.filters.thresholds import ThresholdFilter
from jprep.corpus.signals.lines import SENTENCE_END_MARKS
from jprep.corpus.step import Filter

SHARES = st.one_of(st.sampled_from([0.0, 0.05, 0.07, 0.1, 0.3, 0.5, 1.0]), st.floats(0, 1))
SHORT_FLOATS = st.one_of(st.floats(0, 1, width=32), st.floats(0, 100, width=32))  # signals have 32 bits
LIMITS = st.one_of(st.floats(0, 1000), st.just(float("inf")))
COUNTS = st.integers(0, 12)
TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["あ", "漢", "、。", "★", "1", "abc", "\n", "\n同じ行\n", " ", "https://a.jp/b ", "www.x ", "終。\n"]
        ),
        max_size=40,
    ).map("".join),
)
COLUMNS = ["characters", "sentences", "hiragana_share", "kanji_share", "repeated_line_share", "urls_per_1000"]
OPTIONS: dict[type[Filter], dict[str, st.SearchStrategy[Any]]] = {
    LengthFilter: {"min_chars": COUNTS, "max_chars": COUNTS, "min_sentences": COUNTS},
    JapaneseFilter: {"min_kana": SHARES, "min_japanese": SHARES},
    SymbolFilter: {"max_symbols": SHARES, "max_punctuation": SHARES, "max_digits": SHARES},
    UrlFilter: {"max_share": SHARES, "max_per_1000": LIMITS},
    SentenceEndFilter: {"min_share": SHARES, "min_lines": COUNTS, "drop_lines": st.booleans()},
    ThresholdFilter: {"signal": st.sampled_from(COLUMNS), "min": SHORT_FLOATS, "max": SHORT_FLOATS},
    RepeatedLinesFilter: {"max_lines": SHARES, "max_chars": SHARES, "drop_repeats": st.booleans()},
}


def outside(measures: Mapping[str, float], step: Filter) -> list[str]:
    limits = step.thresholds()
    return [
        name
        for name, value in measures.items()
        if (limits[name][0] is not None and value < limits[name][0])
        or (limits[name][1] is not None and value > limits[name][1])
    ]


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.name)
@given(data=st.data(), text=TEXTS)
def test_a_document_is_dropped_when_a_measure_is_outside_its_threshold(
    kind: type[Filter], data: st.DataObject, text: str
) -> None:
    options = {name: data.draw(values, name) for name, values in OPTIONS[kind].items()}
    step = kind(msgspec.convert(options, kind.Config))
    doc = Document("a:1", "a", "", "", text, words=text.replace("。", f"。{SENTENCE}"))
    assert bool(outside(step.measure(doc), step)) == (not step.judge(doc).keep)
    assert set(step.measure(doc)) <= set(step.thresholds())


def test_every_built_in_filter_measures() -> None:
    others = {"preset", "hojichar", "line_threshold"}  # thresholds of others, or of single lines
    assert {kind.name for kind in OPTIONS} == jprep_filters().keys() - others


@given(TEXTS)
def test_lines_are_counted_as_python_counts_them(text: str) -> None:
    lines = text.split("\n")
    ended = [bool(line.rstrip()) and line.rstrip()[-1] in SENTENCE_END_MARKS for line in lines]
    repeated = [bool(line) and line in lines[:number] for number, line in enumerate(lines)]
    unended = tuple(number for number, line in enumerate(lines) if line and not ended[number])
    again = tuple(number for number, found in enumerate(repeated) if found)
    doc = Document("a:1", "a", "", "", text)
    sentence_ends = SentenceEndFilter(SentenceEndFilter.Config(min_share=0.0, drop_lines=True))
    repeats = RepeatedLinesFilter(RepeatedLinesFilter.Config(max_lines=1.0, max_chars=1.0, drop_repeats=True))
    assert sentence_ends.measure(doc).get("sentence_ends", 0) == sum(ended)
    assert sentence_ends.judge(doc).lines == (unended if any(ended) else ())
    assert repeats.judge(doc).lines == again
    if filled := [line for line in lines if line]:
        characters = sum(len(lines[number]) for number in again)
        shares = {
            "repeated_line_share": len(again) / len(filled),
            "repeated_character_share": characters / sum(map(len, filled)),
        }
        assert repeats.measure(doc) == pytest.approx(shares)


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.one_of(SHARES, LIMITS))
def test_a_fraction_is_on_the_side_of_the_product(count: int, total: int, threshold: float) -> None:
    value = fraction(count, total, threshold)
    assert (value < threshold, value > threshold) == (count < threshold * total, count > threshold * total)
    assert value == pytest.approx(count / total)


def test_a_quotient_that_is_rounded_differently() -> None:
    assert fraction(7, 100, 0.07) < 0.07 == 7 / 100
