"""Estimates of the memory that a job takes."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.models import parameters, training_memory
from jprep.train.optimization.muon import uses_muon

_LOGIT_BYTES = 12  # logits, their logarithms and their gradient, in fp32
_MUON_SAVES = 4  # bytes per number of its matrices, which have no second average
_CHECKPOINTED = 3  # a layer's input takes less than a third of its activations


def estimate_job_memory(job: Job, rows: int, *, attention: bool, fused: bool = True) -> int:
    """Return the estimated bytes of weights, gradients, optimizer and activations of an unsharded job.

    Args:
        job: the job.
        rows: rows that pass through the model at a time; 0 leaves out activations.
        attention: whether attention matrices are kept for the backward pass.
        fused: whether the loss never holds the logits of all tokens, and `gelu_new` is one kernel.
    """
    section = job.train
    length = section.longest
    hooked = section.hooks.loss and section.objective in ("clm", "mlm")  # it gets all logits of a micro-batch
    logits: int = _LOGIT_BYTES * rows * length * job.model["vocab_size"] if hooked else 0
    memory = training_memory(
        job.model, section.objective, rows, length, section.precision, attention=attention, fused=fused
    )
    return memory + logits - muon_savings(job)


def muon_savings(job: Job) -> int:
    """Return the bytes of the averages of squares that AdamW has and Muon does not; 0 with another optimizer."""
    if job.train.optimizer.kind != "muon":
        return 0
    tensors = parameters(job.model, job.train.objective)
    return _MUON_SAVES * sum(
        tensor.size for name, tensor in tensors.items() if tensor.trained and uses_muon(name, tensor.shape)
    )


def estimate_activations(job: Job, rows: int, *, attention: bool, gradient_checkpointing: bool) -> int:
    """Return the estimated bytes of activations that are kept for the backward pass.

    Args:
        job: the job.
        rows: rows that pass through the model at a time.
        attention: whether attention matrices are kept.
        gradient_checkpointing: whether only the layers' inputs are kept.
    """
    state = estimate_job_memory(job, 0, attention=attention)
    kept = estimate_job_memory(job, rows, attention=attention) - state
    return kept // _CHECKPOINTED if gradient_checkpointing else kept
