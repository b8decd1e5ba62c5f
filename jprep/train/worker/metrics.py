"""What is measured on the validation split of `classify` and `regress`; `docs/training.md` has the definitions."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from jprep.train.job.config import Job

Doubles = npt.NDArray[np.float64]

_EACH = 20  # labels; with more of them no F1 of each is told


class Metrics:
    """Takes a rank's predictions batch by batch, and makes figures of those of all ranks.

    Args:
        job: the job; under `clm` and `mlm` there are no figures.
        world: how many ranks take part.
    """

    def __init__(self, job: Job, world: int = 1) -> None:
        self._classes, self._labels = job.train.task == "classify", job.labels
        self._rows, self._parts = job.train.batch // world, [np.zeros((0, 2))]

    def add(self, outputs: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Take this rank's rows of a batch. Once for each batch, and where it has no row as well.

        Args:
            outputs: of `classify`, (rows, labels), a row's largest is its class; of `regress`, (rows,) or (rows, 1).
            labels: the batch's, (rows,).
        """
        expected = np.asarray(labels, np.float64)
        found = np.asarray(outputs, np.float64).reshape(len(expected), len(self._labels) if self._classes else 1)
        part = np.full((self._rows, 2), np.nan)
        part[: len(expected), 0] = found.argmax(axis=1) if self._classes else found[:, 0]
        part[: len(expected), 1] = expected
        self._parts.append(part)

    @property
    def part(self) -> Doubles:
        """This rank's predictions and labels, (rows, 2), of one shape on all ranks: what an all-gather takes.

        A row that is missing in the last batch has NaN for its label.
        """
        return np.concatenate(self._parts)

    def figures(self, parts: Iterable[Doubles] | None = None) -> dict[str, float]:
        """The figures: the same doubles however the rows were spread over ranks; NaN where one is not defined.

        Args:
            parts: `part` of every rank; by default this one's only.
        """
        seen = np.concatenate(list(parts) if parts is not None else [self.part])
        found, expected = seen[~np.isnan(seen[:, 1])].T
        if not len(found):
            return {}
        return (
            classification_metrics(found, expected, self._labels)
            if self._classes
            else regression_metrics(found, expected)
        )


def classification_metrics(
    found: npt.NDArray[np.number], expected: npt.NDArray[np.number], labels: list[str]
) -> dict[str, float]:
    """Accuracy, macro F1, Matthews' correlation and F1 of each label.

    Args:
        found: places in `labels`, (rows,).
        expected: the same, as the rows have them.
        labels: the names of classes.
    """
    count = len(labels)
    table = np.bincount((count * expected + found).astype(np.int64), minlength=count * count).reshape(count, count)
    right, told, true = np.diagonal(table), table.sum(axis=0), table.sum(axis=1)
    f1 = 2 * right / np.maximum(told + true, 1)
    macro = math.fsum(f1[told + true > 0]) / int((told + true > 0).sum())
    accuracy, mcc = int(right.sum()) / len(found), _matthews(int(right.sum()), told.tolist(), true.tolist())
    each = dict(zip((f"f1/{label}" for label in labels), f1.tolist(), strict=True)) if count <= _EACH else {}
    return {"accuracy": accuracy, "macro_f1": macro, "mcc": mcc, **each}


def _matthews(hits: int, told: list[int], true: list[int]) -> float:
    rows = sum(true)
    above = hits * rows - sum(one * other for one, other in zip(told, true, strict=True))
    below = (rows**2 - sum(one**2 for one in told)) * (rows**2 - sum(one**2 for one in true))
    return above / math.sqrt(below) if below else 0.0


def regression_metrics(found: Doubles, expected: Doubles) -> dict[str, float]:
    """Root of the mean squared error, Pearson's and Spearman's correlation.

    Args:
        found: outputs, (rows,).
        expected: scores, (rows,).
    """
    error = math.sqrt(math.fsum((found - expected) ** 2) / len(found))
    return {"rmse": error, "pearson": _pearson(found, expected), "spearman": _pearson(_ranks(found), _ranks(expected))}


def _pearson(one: Doubles, other: Doubles) -> float:
    one, other = (values - math.fsum(values) / len(values) for values in (one, other))
    below = math.sqrt(math.fsum(one**2)) * math.sqrt(math.fsum(other**2))
    return math.fsum(one * other) / below if below else math.nan


def _ranks(values: Doubles) -> Doubles:
    """Places in order from 0, equal values at the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[which]
