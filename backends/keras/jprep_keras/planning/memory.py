"""Estimate the memory that a job needs on one device."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.planning.memory_estimate import estimate_job_memory

_COPY = 8  # bytes per weight: its values in the layout of Keras, and their gradient


def estimate_memory(job: Job, rows: int) -> int:
    """Return the bytes on one device. Attention matrices and logits are kept for the backward pass.

    Args:
        job: the job.
        rows: rows that go through the model at a time.
    """
    return estimate_job_memory(job, rows, attention=True, fused=False) + _COPY * job.parameters
