"""Estimate the memory that a job needs."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.models import training_memory


def estimate_memory(job: Job, rows: int) -> int:
    """Return the bytes of weights, gradients, optimizer and activations.

    Args:
        job: the job.
        rows: rows that go through the model at a time.
    """
    section = job.train
    return training_memory(job.model, section.task, rows, section.length, section.precision)
