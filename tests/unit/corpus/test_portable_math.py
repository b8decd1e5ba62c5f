"""Functions that give the same results on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from jprep.corpus.quality.model import logistic
from jprep.corpus.signals.portable_math import exp_of_negative, interpolate


def test_exponentials_are_close_and_do_not_fail_far_below_zero() -> None:
    values = np.array([0, -1e-9, -0.5, -1, -5, -20, -700, -1e9, -np.inf])
    assert exp_of_negative(values) == pytest.approx(np.exp(values), rel=3e-4, abs=1e-12)
    assert exp_of_negative(np.zeros(1))[0] == 1 and np.isnan(exp_of_negative(np.array([np.nan])))[0]


def test_the_logistic_function_is_close_symmetric_and_increasing() -> None:
    values = np.linspace(-40, 40, 801)
    found = logistic(values)
    assert found == pytest.approx(1 / (1 + np.exp(-values)), abs=1e-6)
    assert found + found[::-1] == pytest.approx(1, abs=1e-12) and (np.diff(found) >= 0).all()
    assert logistic(np.array([-np.inf, np.inf])).tolist() == [0, 1] and np.isnan(logistic(np.array([np.nan])))[0]


@pytest.mark.parametrize("points", [1, 2, 7])
def test_an_interpolation_is_that_of_numpy_up_to_rounding(points: int) -> None:
    rng = np.random.default_rng(points)
    xs, ys = np.sort(rng.normal(size=points)), rng.normal(size=points)
    x = np.concatenate([xs, rng.normal(scale=3, size=200)])
    assert interpolate(x, xs, ys) == pytest.approx(np.interp(x, xs, ys), rel=1e-12, abs=1e-12)
    assert interpolate(xs, xs, ys) == pytest.approx(ys, rel=1e-12)
