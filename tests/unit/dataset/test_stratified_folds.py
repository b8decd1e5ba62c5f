"""Stratified folds: equal shares of each stratum, equal texts together, independent of the order of rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.labelled.dataset import encode_labelled
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.dataset.labelled.stratified_folds import assign_stratified_folds, quantile_bins, width_bins
from jprep.errors import ConfigError
from tests.unit.dataset.test_labelled import BERT

ROWS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), min_size=1, max_size=200)
SCORES = st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=100)


def spread(counts: Counter[int], folds: int) -> int:
    each = [counts[fold] for fold in range(folds)]
    return max(each) - min(each)


@given(ROWS, st.integers(2, 7), st.randoms(use_true_random=False))
def test_laws_of_stratified_folds(rows: list[tuple[int, int]], folds: int, chance: random.Random) -> None:
    words, strata = [word for word, _ in rows], [stratum for _, stratum in rows]
    found = assign_stratified_folds(words, strata, folds).tolist()
    by_word = dict(zip(words, found, strict=True))
    assert found == [by_word[word] for word in words]  # equal texts are in one fold
    lowest = {word: min(stratum for other, stratum in rows if other == word) for word in words}
    for stratum in range(5):
        of_stratum = Counter(fold for word, fold in by_word.items() if lowest[word] == stratum)
        assert spread(of_stratum, folds) <= 1
    assert spread(Counter(by_word.values()), folds) <= 1
    order = list(range(len(rows)))
    chance.shuffle(order)
    shuffled = assign_stratified_folds([words[i] for i in order], [strata[i] for i in order], folds)
    assert shuffled.tolist() == [found[i] for i in order]


@given(SCORES, st.integers(2, 12))
def test_laws_of_bins(scores: list[float], bins: int) -> None:
    for assign in (quantile_bins, width_bins):
        found = assign(scores, bins)
        assert all(0 <= one < bins for one in found)
        ordered = [one for _, one in sorted(zip(scores, found, strict=True))]
        assert ordered == sorted(ordered)
        assert len({(score, one) for score, one in zip(scores, found, strict=True)}) == len(set(scores))
    if len(set(scores)) == len(scores):
        sizes = Counter(quantile_bins(scores, bins))
        assert max(sizes.values()) - min(sizes[one] for one in range(bins)) <= 1


def test_bins_of_known_scores() -> None:
    assert width_bins([0, 1, 2, 3, 4], 4) == [0, 1, 2, 3, 3]
    assert quantile_bins([0.0, 10.0, 11.0, 12.0], 2) == [0, 0, 1, 1]
    assert quantile_bins([1.0, 1.0, 1.0, 5.0], 4) == [0, 0, 0, 3]
    assert width_bins([2.0, 2.0], 3) == [0, 0]


def write(folder: Path, rows: int) -> Path:
    path = folder / "rows.jsonl"
    lines = [{"text": f"文{i}", "label": "rare" if i % 10 == 0 else "usual", "score": i * i} for i in range(rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_rows_of_a_file_are_stratified_by_label(tmp_path: Path) -> None:
    data = encode_labelled([write(tmp_path, 200)], BERT, LabelledConfig(folds=5, stratify="label"), "classify")
    rare = data.names.index("rare")
    assert [int((data.targets[data.split(fold)[1]] == rare).sum()) for fold in range(5)] == [4] * 5
    assert [len(data.split(fold)[1]) for fold in range(5)] == [40] * 5
    assert data.folds[:12].tolist() == EXPECTED


EXPECTED = [3, 0, 4, 4, 4, 3, 0, 0, 4, 1, 1, 0]
"""The folds of the first rows, computed from the rule without jprep's reader; they must never change."""


@pytest.mark.parametrize("stratify", ["quantiles", "width"])
def test_rows_of_a_file_are_stratified_by_score(stratify: str, tmp_path: Path) -> None:
    config = LabelledConfig(folds=4, stratify=stratify, label="score", bins=5)  # type: ignore[arg-type]
    data = encode_labelled([write(tmp_path, 100)], BERT, config, "regress")
    bins = (quantile_bins if stratify == "quantiles" else width_bins)(data.targets.tolist(), 5)
    for one in range(5):
        assert spread(Counter(data.folds[[i for i in range(100) if bins[i] == one]].tolist()), 4) <= 1


def test_sturges_is_the_default_number_of_bins(tmp_path: Path) -> None:
    path, sturges = write(tmp_path, 100), 7  # 1 + floor(log2(100))
    folds = [
        encode_labelled(
            [path], BERT, LabelledConfig(folds=4, stratify="width", label="score", bins=bins), "regress"
        ).folds
        for bins in (0, sturges, 3)
    ]
    assert folds[0].tolist() == folds[1].tolist() != folds[2].tolist()


def test_strata_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 10)
    for config, task, why in (
        (LabelledConfig(stratify="label"), "classify", "no folds"),
        (LabelledConfig(stratify="label", folds=2, fold="score"), "classify", "column"),
        (LabelledConfig(stratify="width", folds=2), "classify", "not strata for classify"),
        (LabelledConfig(stratify="label", folds=2, label="score"), "regress", "not strata for regress"),
        (LabelledConfig(stratify="width", folds=2, label="score", bins=1), "regress", "bins"),
    ):
        with pytest.raises(ConfigError, match=why):
            encode_labelled([path], BERT, config, task)  # type: ignore[arg-type]
