"""Estimate the memory that a job needs on one device."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.planning.memory_estimate import estimate_job_memory


def estimate_memory(job: Job, rows: int) -> int:
    """Return the bytes on one device. fairseq keeps attention matrices, and the logits of all tokens.

    Args:
        job: the job.
        rows: rows that go through the model at a time.
    """
    return estimate_job_memory(job, rows, attention=True, fused=False)
