"""Metrics of labelled rows, compared with the vectors in docs/training.md."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.train.job.config import Job, TrainConfig
from jprep.train.worker.metrics import Metrics, classification_metrics, regression_metrics
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.fakes.small_run import job_of

LABELS = ["a", "b", "c", "d"]
FOUND, EXPECTED = np.array([0, 1, 2, 2, 1]), np.array([0, 1, 1, 2, 2])


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("metrics")
    return job_of(lay_out(folder / "dataset", SPLITS), folder / "run", batch=4)


def of(job: Job, task: str, labels: list[str]) -> Job:
    train = msgspec.convert({"task": task, "batch": 4}, TrainConfig)
    return msgspec.structs.replace(job, train=train, labels=labels)


def test_classes_by_the_table() -> None:
    figures = classification_metrics(FOUND, EXPECTED, LABELS)
    assert figures == {
        "accuracy": 0.6, "macro_f1": pytest.approx(2 / 3), "mcc": 0.375, "f1/a": 1, "f1/b": 0.5, "f1/c": 0.5, "f1/d": 0,
    }  # fmt: skip


def test_two_classes_by_the_table() -> None:
    figures = classification_metrics(np.array([1, 1, 1, 0, 0, 1, 0, 0]), np.array([1, 1, 0, 0, 1, 1, 0, 0]), ["0", "1"])
    assert figures == {"accuracy": 0.75, "macro_f1": 0.75, "mcc": 0.5, "f1/0": 0.75, "f1/1": 0.75}


def test_a_single_class_does_not_divide_by_zero() -> None:
    figures = classification_metrics(np.zeros(3, int), np.zeros(3, int), ["a", "b"])
    assert (figures["accuracy"], figures["macro_f1"], figures["mcc"]) == (1.0, 1.0, 0.0)


def test_with_many_classes_f1_per_label_is_left_out() -> None:
    assert set(classification_metrics(FOUND, EXPECTED, [str(number) for number in range(21)])) == {
        "accuracy",
        "macro_f1",
        "mcc",
    }


def test_scores_by_the_table() -> None:
    figures = regression_metrics(np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    assert figures["rmse"] == pytest.approx(0.866025403784, abs=1e-12)
    assert figures["pearson"] == pytest.approx(0.831521840620, abs=1e-12)
    assert figures["spearman"] == pytest.approx(0.8, abs=1e-12)


def test_equal_scores_share_their_rank() -> None:
    figures = regression_metrics(np.array([0.5, 0.1, 0.9, 0.7]), np.array([3.0, 1.0, 3.0, 2.0]))
    assert figures["spearman"] == pytest.approx(0.632455532034, abs=1e-12)


def test_a_correlation_with_a_constant_is_not_defined() -> None:
    figures = regression_metrics(np.full(3, 2.0), np.array([1.0, 2.0, 3.0]))
    assert math.isnan(figures["pearson"]) and math.isnan(figures["spearman"])
    assert figures["rmse"] == pytest.approx(math.sqrt(2 / 3))


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=40), st.booleans())
def test_metrics_do_not_depend_on_the_number_of_ranks(job: Job, rows: list[tuple[float, float]], turned: bool) -> None:
    regress, whole = of(job, "regress", []), np.array(rows)
    alone, pair = Metrics(regress), [Metrics(regress, 2), Metrics(regress, 2)]
    for start in range(0, len(rows), 4):
        block = whole[start : start + 4]
        alone.add(block[:, :1], block[:, 1])
        for rank, metrics in enumerate(pair):
            share = block[2 * rank : 2 * rank + 2]
            metrics.add(share[:, 0], share[:, 1])
    assert pair[0].part.shape == pair[1].part.shape  # what an all-gather needs
    parts = np.stack([metrics.part for metrics in (pair[::-1] if turned else pair)])
    assert str(pair[0].figures(parts)) == str(alone.figures())  # in every bit, and NaN where NaN is


def test_a_rank_without_rows_of_the_last_batch(job: Job) -> None:
    ranks = [Metrics(of(job, "classify", ["no", "yes"]), 2) for _ in range(2)]
    ranks[0].add(np.array([[0.1, 0.9]]), np.array([1]))
    ranks[1].add(np.zeros((0, 2)), np.zeros(0, np.int64))
    figures = ranks[0].figures([metrics.part for metrics in ranks])
    assert figures == {"accuracy": 1.0, "macro_f1": 1.0, "mcc": 0.0, "f1/no": 0.0, "f1/yes": 1.0}


def test_no_rows_have_no_figures(job: Job) -> None:
    assert Metrics(job).figures() == {}


def test_the_tables_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    for number in ("0.666666667", "0.866025404", "0.831521841", "0.632455532"):
        assert number in page
