"""Samples by hash, lengths in bins, replaced characters, and what reasons and counts mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.reasons import explain
from jprep.report.corpus.changes import changes
from jprep.report.corpus.lengths import LengthHistogram
from jprep.report.corpus.replacements import replacements
from jprep.report.corpus.sampling import SmallestKeys, key_limit

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=60)


@given(KEYS, st.integers(1, 8), st.integers(1, 9))
def test_the_smallest_keys_are_kept_whatever_the_batches(keys: list[int], size: int, batch: int) -> None:
    sample = SmallestKeys[int](size)
    for start in range(0, len(keys), batch):
        some = np.array(keys[start : start + batch], dtype=np.uint64)
        sample.offer(some, lambda row, start=start: start + row)  # type: ignore[misc]
    assert sample.items() == sorted(range(len(keys)), key=lambda row: (keys[row], row))[:size]


def test_key_limits() -> None:
    assert key_limit(0) == 0 and key_limit(1) == key_limit(2) == 2**64 - 1
    assert key_limit(0.5) == 2**63


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=80), st.floats(0.01, 1))
def test_lengths_are_counted(lengths: list[int], share: float) -> None:
    histogram = LengthHistogram()
    for length in lengths:
        histogram.add(np.array([length], dtype=np.int64))
    exact = sorted(lengths)[math.ceil(share * len(lengths)) - 1]
    assert exact <= histogram.quantile(share) <= max(exact + 1, 1.024 * exact + 1)
    edges, counts = histogram.bins()
    assert len(edges) == len(counts) + 1 and sum(counts) == len(lengths)
    assert edges == sorted(edges) and edges[0] <= min(lengths) and max(lengths) <= edges[-1] * 1.3


def test_no_lengths() -> None:
    assert LengthHistogram().bins() == ([], []) and LengthHistogram().quantile(0.5) == 0


def test_replacements() -> None:
    found = replacements([("Ｗｅｂ　の話", "Webの話"), ("ｶﾞ〜〜", "ガ"), ("same", "same")])
    pairs = {(each.before, each.after): each.times for each in found}
    assert pairs[("Ｗ", "W")] == 1 and pairs[("　", "")] == 1
    assert ("s", "s") not in pairs
    assert next(each.name for each in found if each.before == "　") == "ideographic space"


def test_a_long_line_is_compared_in_part() -> None:
    assert replacements([("Ａ" * 10_000, "A" * 10_000)])[0].times < 1000


@pytest.mark.parametrize("normalizer", ["neologdn", "nfkc"])
def test_the_examples_of_changes_are_true(normalizer: str) -> None:
    """Each example `before → after` is what the normalizer does, and is counted under its name."""
    step = make_step("normalizer", {"use": normalizer} | ({"tilde": "ignore"} if normalizer == "neologdn" else {}))
    samples = "Ａｶﾅ①㌔㈱カ゛スーーパー─‐“”¥日本 語 A　B ---\u2010ー--"
    step.apply(samples)
    counts = {f"normalizer.{normalizer}.{name}": count for name, count in step.tally.items()}
    shown = changes(counts, ("normalizer",))
    assert shown
    for each in shown:
        assert each.phrase, each.name
        before, arrow, after = each.example.partition(" → ")
        if arrow and "+" not in before:
            assert step.apply(before) == after, each


def test_reasons_have_phrases_with_the_options_values() -> None:
    assert explain("filter.length", "too_short", {"min_chars": [10, 1500]}) == "shorter than 10 or 1,500 characters"
    assert explain("filter.japanese", "foreign", {"min_japanese": [0.3]}).startswith("less than 30 % of")
    assert explain("filter.length", "too_short") == "shorter than min_chars characters"
    assert explain("reader.wikipedia", "namespace_10") == "pages that are no articles: templates"
    assert explain("reader.text", "invalid_cp932") == "bytes that do not decode"
    assert explain("filter.mine", "odd") == ""
