"""Validation metrics of `classify` and `regress`, and a user's own. `docs/training.md` has the definitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from jprep.train.hooks.loading import Hook
from jprep.train.hooks.metrics import hook_metrics
from jprep.train.job.config import Job

Doubles = npt.NDArray[np.float64]

_F1_LABELS = 20  # with more labels, F1 per label is left out


class Metrics:
    """Collects a rank's predictions batch by batch, and computes metrics over those of all ranks.

    Args:
        job: the job, of `classify` or `regress`.
        world: the number of ranks.
        hooks: a user's own metrics.
    """

    def __init__(self, job: Job, world: int = 1, hooks: Sequence[Hook] = ()) -> None:
        self._classes, self._labels, self._hooks = job.train.task == "classify", job.labels, hooks
        self._keeps_logits = self._classes and bool(hooks)  # hooks get all of them
        self._columns = len(job.labels) if self._keeps_logits else 1
        self._rows, self._parts = job.train.batch // world, [np.zeros((0, self._columns + 1))]

    def add(self, outputs: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add this rank's rows of a batch. Call it once for every batch, even if the rank has no row of it.

        Args:
            outputs: for `classify`, logits (rows, labels); for `regress`, scores (rows,) or (rows, 1).
            labels: the labels of the batch, (rows,).
        """
        expected = np.asarray(labels, np.float64)
        found = np.asarray(outputs, np.float64).reshape(len(expected), len(self._labels) if self._classes else 1)
        part = np.full((self._rows, self._columns + 1), np.nan)
        keeps = self._keeps_logits or not self._classes
        part[: len(expected), :-1] = found if keeps else found.argmax(axis=1, keepdims=True)
        part[: len(expected), -1] = expected
        self._parts.append(part)

    @property
    def part(self) -> Doubles:
        """This rank's predictions and labels, of the same shape on all ranks, as an all-gather needs.

        (rows, 2); with hooks of `classify` (rows, classes + 1), the logits before the label.

        Rows missing in the last batch have the label NaN.
        """
        return np.concatenate(self._parts)

    def figures(self, parts: Iterable[Doubles] | None = None) -> dict[str, float]:
        """Return the metrics by name. They do not depend on how rows were distributed; undefined ones are NaN.

        Args:
            parts: `part` of every rank; by default only this rank's.
        """
        seen = self._in_order(list(parts) if parts is not None else [self.part])
        if not len(seen):
            return {}
        outputs, expected = seen[:, :-1], seen[:, -1]
        found = outputs.argmax(axis=1) if self._keeps_logits else outputs[:, 0]
        if not self._classes:
            return regression_metrics(found, expected) | self._hook_metrics(found, expected)
        return classification_metrics(found, expected, self._labels) | self._hook_metrics(outputs, expected)

    def _in_order(self, parts: Sequence[Doubles]) -> Doubles:
        """Return the rows of all ranks in the order of the batches, without those that are missing."""
        ranks = np.stack(parts)
        ordered = ranks.reshape(len(ranks), -1, self._rows, self._columns + 1).swapaxes(0, 1)
        rows: Doubles = ordered.reshape(-1, self._columns + 1)
        return rows[~np.isnan(rows[:, -1])]

    def _hook_metrics(self, outputs: Doubles, expected: Doubles) -> dict[str, float]:
        labels = expected.astype(np.int64 if self._classes else np.float32)
        return hook_metrics(self._hooks, outputs.astype(np.float32), labels)


def classification_metrics(
    found: npt.NDArray[np.number], expected: npt.NDArray[np.number], labels: list[str]
) -> dict[str, float]:
    """Return accuracy, macro F1, Matthews' correlation coefficient, and F1 per label.

    Args:
        found: predicted class indices, (rows,).
        expected: true class indices, (rows,).
        labels: the class names.
    """
    count = len(labels)
    table = np.bincount((count * expected + found).astype(np.int64), minlength=count * count).reshape(count, count)
    right, predicted, true = np.diagonal(table), table.sum(axis=0), table.sum(axis=1)
    f1 = 2 * right / np.maximum(predicted + true, 1)
    macro = math.fsum(f1[predicted + true > 0]) / int((predicted + true > 0).sum())
    accuracy, mcc = int(right.sum()) / len(found), _matthews(int(right.sum()), predicted.tolist(), true.tolist())
    each = dict(zip((f"f1/{label}" for label in labels), f1.tolist(), strict=True)) if count <= _F1_LABELS else {}
    return {"accuracy": accuracy, "macro_f1": macro, "mcc": mcc, **each}


def _matthews(hits: int, predicted: list[int], true: list[int]) -> float:
    rows = sum(true)
    above = hits * rows - sum(one * other for one, other in zip(predicted, true, strict=True))
    below = (rows**2 - sum(one**2 for one in predicted)) * (rows**2 - sum(one**2 for one in true))
    return above / math.sqrt(below) if below else 0.0


def regression_metrics(found: Doubles, expected: Doubles) -> dict[str, float]:
    """Return the root mean squared error, and Pearson's and Spearman's correlation coefficients.

    Args:
        found: predicted scores, (rows,).
        expected: true scores, (rows,).
    """
    error = math.sqrt(math.fsum((found - expected) ** 2) / len(found))
    return {"rmse": error, "pearson": _pearson(found, expected), "spearman": _pearson(_ranks(found), _ranks(expected))}


def _pearson(one: Doubles, other: Doubles) -> float:
    one, other = (values - math.fsum(values) / len(values) for values in (one, other))
    below = math.sqrt(math.fsum(one**2)) * math.sqrt(math.fsum(other**2))
    return math.fsum(one * other) / below if below else math.nan


def _ranks(values: Doubles) -> Doubles:
    """Return the ranks of values from 0; equal values share the mean of their ranks."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[which]
