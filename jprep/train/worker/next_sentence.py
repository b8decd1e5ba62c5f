"""Validation metrics of the next-sentence task. `docs/training.md` has the definitions."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from jprep.train.job.config import Job
from jprep.train.worker.metrics import Doubles

NEXT_SENTENCE_LOSS = "next_sentence_loss"
NEXT_SENTENCE_ACCURACY = "next_sentence_accuracy"


class NextSentenceMetrics:
    """Collects a rank's predictions batch by batch, and computes metrics over those of all ranks, like `Metrics`.

    Args:
        job: the job, with `next_sentence`.
        world: the number of ranks.
    """

    def __init__(self, job: Job, world: int = 1) -> None:
        self._rows, self._parts = job.train.batch // world, [np.zeros((0, 2))]

    def add(self, outputs: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add this rank's rows of a batch. Call it once for every batch, even if the rank has no row of it.

        Args:
            outputs: logits of both classes, (rows, 2).
            labels: the batch's `next_sentence`, (rows,).
        """
        expected = np.asarray(labels, np.int64)
        logits = np.asarray(outputs, np.float64).reshape(len(expected), 2)
        right, wrong = (np.take_along_axis(logits, one.reshape(-1, 1), 1)[:, 0] for one in (expected, 1 - expected))
        part = np.full((self._rows, 2), np.nan)
        part[: len(expected), 0] = np.logaddexp(0.0, wrong - right)
        part[: len(expected), 1] = logits.argmax(axis=1) == expected
        self._parts.append(part)

    @property
    def part(self) -> Doubles:
        """This rank's losses and correct rows, (rows, 2), of the same shape on all ranks, as an all-gather needs.

        Rows missing in the last batch are NaN.
        """
        return np.concatenate(self._parts)

    def figures(self, parts: Iterable[Doubles] | None = None) -> dict[str, float]:
        """Return the mean loss and the accuracy by name. They do not depend on how rows were distributed.

        Args:
            parts: `part` of every rank; by default only this rank's.
        """
        seen = np.concatenate(list(parts) if parts is not None else [self.part])
        losses, correct = seen[~np.isnan(seen[:, 1])].T
        if not len(losses):
            return {}
        return {
            NEXT_SENTENCE_LOSS: math.fsum(losses) / len(losses),
            NEXT_SENTENCE_ACCURACY: int(correct.sum()) / len(correct),
        }
