"""Calibrate scores, and measure how good they are on documents that were held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.quality.model import logistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ITERATIONS = 50
_PRIOR = 1e-3  # keeps the equations solvable if all values are equal
_BINS = 10
_DECIMALS = 6


def class_weights(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a weight for each document so that both classes weigh half, and all together 1."""
    good = int(labels.sum())
    per_class = np.array([0.5 / max(1, len(labels) - good), 0.5 / max(1, good)])
    return per_class[labels]


def fit_logistic(values: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[float, float]:
    """Return slope and offset of the logistic function that fits labels best (Platt), the classes balanced.

    Args:
        values: uncalibrated values, shape [documents].
        labels: 1 for good, 0 for bad, shape [documents].
    """
    center, spread = float(values.mean()), float(values.std()) or 1.0
    weights, design = class_weights(labels), np.stack([(values - center) / spread, np.ones(len(values))])
    found = np.array([1.0, 0.0])
    targets = _smoothed(labels)
    for _ in range(_ITERATIONS):
        scores = logistic(found @ design)
        gradient = design @ (weights * (scores - targets)) + _PRIOR * np.array([0.0, found[1]])
        curvature = (design * (weights * scores * (1 - scores))) @ design.T + np.diag([1e-9, _PRIOR])
        change = np.clip(np.linalg.solve(curvature, gradient), -2, 2)
        found -= change
        if np.abs(change).max() < 1e-9:
            break
    slope = float(found[0]) / spread
    return slope, float(found[1]) - slope * center


def held_out_figures(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy, AUC and expected calibration error (10 bins of equal width), the classes balanced.

    Args:
        scores: scores from 0 to 1, shape [documents].
        labels: 1 for good, 0 for bad, shape [documents].
    """
    weights = class_weights(labels)
    right = (scores >= 0.5) == (labels == 1)
    figures = {
        "auc": area_under_curve(scores, labels),
        "accuracy": float(weights @ right),
        "calibration_error": _calibration_error(scores, labels, weights),
    }
    return {name: round(value, _DECIMALS) for name, value in figures.items()}


def area_under_curve(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the probability that a good document has a higher score than a bad one; equal scores count half."""
    values, inverse = np.unique(scores, return_inverse=True)
    good = np.bincount(inverse, labels, minlength=len(values))
    bad = np.bincount(inverse, 1 - labels, minlength=len(values))
    wins = good @ (np.cumsum(bad) - bad / 2)
    return float(wins / max(1.0, good.sum() * bad.sum()))


def _smoothed(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Platt's targets: not quite 0 and 1, so that few documents do not make a model certain."""
    good = int(labels.sum())
    bad = len(labels) - good
    return np.where(labels == 1, (good + 1) / (good + 2), 1 / (bad + 2))


def _calibration_error(scores: NDArray[np.float64], labels: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    bins = np.minimum((scores * _BINS).astype(np.int64), _BINS - 1)
    differences = np.bincount(bins, weights * (scores - labels), minlength=_BINS)
    return float(np.abs(differences).sum())
