"""Estimate the memory that a job needs on one device."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.planning.memory_estimate import estimate_job_memory

_MASK = 4  # bytes of what is added to an attention score


def estimate_memory(job: Job, rows: int) -> int:
    """Return the bytes on one device. fairseq keeps attention matrices, and the logits of all tokens.

    Its attention takes the mask of documents for each head; all layers have the same.

    Args:
        job: the job.
        rows: rows that go through the model at a time.
    """
    heads: int = job.model[FAMILIES[job.model["model_type"]].heads]
    mask = _MASK * rows * heads * job.train.longest**2 if job.train.document_masks else 0
    return estimate_job_memory(job, rows, attention=True, fused=False) + mask
