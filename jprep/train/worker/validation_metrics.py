"""The validation metrics of a job, for the workers of all backends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.train.hooks.loading import Hook
from jprep.train.job.config import Job
from jprep.train.worker.metrics import Metrics
from jprep.train.worker.next_sentence import NextSentenceMetrics

AnyMetrics = Metrics | NextSentenceMetrics
"""Collects the outputs of validation batches."""


def validation_metrics(job: Job, world: int = 1, hooks: Sequence[Hook] = ()) -> AnyMetrics | None:
    """Return what computes the metrics of a job besides the loss; None if it has none.

    Args:
        job: the job.
        world: the number of ranks.
        hooks: a user's own metrics.
    """
    if job.train.has_labelled_rows:
        return Metrics(job, world, hooks)
    return NextSentenceMetrics(job, world) if job.train.next_sentence else None


def row_labels(batch: Batch | LabelledBatch) -> npt.NDArray[np.number]:
    """Return the labels of a batch's rows that `AnyMetrics.add` takes: classes, scores, or those of sentence pairs.

    Raises:
        ValueError: its rows have no labels.
    """
    labels = batch.labels if isinstance(batch, LabelledBatch) else batch.next_sentence
    if labels is None:
        raise ValueError("the rows of this batch have no labels")
    return labels
