"""Estimates of the memory that training takes."""

from __future__ import annotations

from typing import Any

from jprep.train.job.config import Job
from jprep.train.planning.memory_estimate import estimate_activations, estimate_job_memory
from jprep_torch.options import Options

_SAVED_BY_8_BITS = 6  # bytes per weight: two averages of one byte each instead of four


def estimate_memory(job: Job, options: Options, device: str, rows: int, shards: int) -> int:
    """Return the estimated bytes on one device.

    Args:
        job: the job.
        options: the backend's options.
        device: `cpu`, `cuda`, `xla` or `tpu`.
        rows: rows that pass through the model at a time.
        shards: number of processes that weights, gradients and optimizer state are sharded among.
    """
    attention = keeps_attention(job.model, device)
    state = estimate_job_memory(job, 0, attention=attention)
    if job.train.optimizer.kind == "adamw-8bit":
        state -= _SAVED_BY_8_BITS * job.parameters
    # Autocast keeps a whole copy of the weights in half precision until the backward pass.
    copy = 0 if job.train.precision == "fp32" else 2 * job.parameters
    checkpointing = options.gradient_checkpointing
    activations = estimate_activations(job, rows, attention=attention, gradient_checkpointing=checkpointing)
    return (state - copy) // shards + copy + activations


def keeps_attention(model: dict[str, Any], device: str) -> bool:
    """Return whether attention matrices are kept for the backward pass.

    They are with dropout on a CPU, which has no fused kernel for it, and always in DeBERTa, which has no fused kernel.

    Args:
        model: transformers' config.
        device: the device.
    """
    if model["model_type"] == "deberta-v2":
        return True
    keys = ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout")
    return device == "cpu" and any(model.get(key) for key in keys)
