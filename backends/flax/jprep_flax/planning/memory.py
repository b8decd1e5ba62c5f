"""Estimate the memory that a job needs on one device."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.planning.memory_estimate import estimate_activations, estimate_job_memory
from jprep_flax.options import Options


def estimate_memory(job: Job, options: Options, mesh: tuple[int, int, int], rows: int) -> int:
    """Return the bytes on one device. Attention matrices are kept for the backward pass.

    Args:
        job: the job.
        options: the options.
        mesh: sizes of the axes data, fsdp and tensor.
        rows: rows that go through the model at a time.
    """
    _, fsdp, tensor = mesh
    checkpointing = options.gradient_checkpointing
    activations = estimate_activations(job, rows, attention=True, gradient_checkpointing=checkpointing)
    return estimate_job_memory(job, 0, attention=True) // (fsdp * tensor) + activations // tensor
