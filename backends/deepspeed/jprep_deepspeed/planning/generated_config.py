"""DeepSpeed's configuration, made from the job."""

from __future__ import annotations

from typing import Any

from jprep.train.job.config import Job
from jprep_deepspeed.options import Layout

BUCKET_SIZE = 50_000_000
"""Numbers that are sent at a time: DeepSpeed keeps buffers of this size, and its own 5e8 would take gigabytes."""

BUCKET_ALIGNMENT = 64
"""What buckets are multiples of; ZeRO 1 and 2 want even ones."""


def settings(job: Job, layout: Layout) -> dict[str, Any]:
    """The whole configuration: what `--dry-run` shows is what the worker is given.

    Optimizer and learning rate are jprep's own and not in it, and neither are clipping and precision at stage 0, where
    DeepSpeed only sums up gradients.
    """
    return {
        "train_batch_size": job.train.batch,
        "train_micro_batch_size_per_gpu": layout.rows,
        "gradient_accumulation_steps": layout.accumulate,
        "zero_force_ds_cpu_optimizer": False,
        **(_divided(job) if layout.stage else {}),
        "zero_optimization": _zero(job, layout),
    }


def _divided(job: Job) -> dict[str, Any]:
    """What DeepSpeed does where it has the optimizer: clipping, and weights in half precision beside fp32's."""
    clip, precision = {"gradient_clipping": job.train.optimizer.clip}, job.train.precision
    if precision == "fp32":
        return clip
    # The scale of fp16 is jprep's to move: for DeepSpeed it stands still.
    scale = {"loss_scale": 2**16} if precision == "fp16" else {}
    return {
        **clip,
        precision: {"enabled": True, **scale},
        "data_types": {"grad_accum_dtype": "fp32"},
        "communication_data_type": "fp32",
    }


def _zero(job: Job, layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": layout.stage}
    if not layout.stage:
        return found
    bucket = min(BUCKET_SIZE, -(-job.parameters // BUCKET_ALIGNMENT) * BUCKET_ALIGNMENT)
    found |= {"contiguous_gradients": True, "overlap_comm": layout.device == "cuda"}
    found |= {"reduce_bucket_size": bucket, "allgather_bucket_size": bucket}
    if layout.offload_optimizer:
        found["offload_optimizer"] = {"device": "cpu", "pin_memory": layout.device == "cuda"}
    if layout.offload_param:
        found["offload_param"] = {"device": "cpu", "pin_memory": layout.device == "cuda"}
    return found
