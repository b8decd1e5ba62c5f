"""DeepSpeed's configuration, generated from the job."""

from __future__ import annotations

from typing import Any

from jprep.train.job.config import Job
from jprep.train.optimization.loss_scale import INITIAL_LOSS_SCALE
from jprep_deepspeed.planning.layout_types import Layout

BUCKET_SIZE = 50_000_000
"""Numbers that are communicated at a time. DeepSpeed keeps buffers of this size; its default of 5e8 takes gigabytes."""

BUCKET_ALIGNMENT = 64
"""Bucket sizes are multiples of it; ZeRO 1 and 2 need even ones."""

SWAPPED_NUMBERS = 100_000_000
"""Weights whose optimizer state is read from files at a time. DeepSpeed's default of 1e9 takes 16 GB a process."""


_NO_CLIPPING = {"gradient_clipping": 0.0}
"""Without the key, DeepSpeed clips to a norm of 1."""


def generate_config(job: Job, layout: Layout) -> dict[str, Any]:
    """Return the whole configuration, as `--dry-run` shows it and the worker uses it.

    The optimizer and the learning rate are jprep's own and not in it. In stage 0, where DeepSpeed only sums gradients,
    the same is true of clipping and precision.

    Args:
        job: the job.
        layout: its processes, ZeRO stage and micro-batch.
    """
    return {
        "train_batch_size": job.train.batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.accumulate,
        "zero_force_ds_cpu_optimizer": False,
        "timers": {"throughput": {"enabled": False}},  # it waits for the device twice a step; jprep measures as well
        **(_update(job) if layout.stage else _NO_CLIPPING),
        **({"zero_allow_untested_optimizer": True} if uses_sharded_muon(job, layout) else {}),
        "zero_optimization": _zero(job, layout),
    }


def uses_sharded_muon(job: Job, layout: Layout) -> bool:
    """Return whether DeepSpeed divides what jprep's Muon updates."""
    return layout.stage > 0 and job.train.optimizer.kind == "muon"


def _update(job: Job) -> dict[str, Any]:
    """Return clipping and precision, which DeepSpeed handles in stages 1 to 3."""
    clip, precision = {"gradient_clipping": job.train.optimizer.clip}, job.train.precision
    if precision == "fp32":
        return clip
    # jprep adjusts the loss scale of fp16: for DeepSpeed it is constant.
    scale = {"loss_scale": int(INITIAL_LOSS_SCALE)} if precision == "fp16" else {}
    return {
        **clip,
        precision: {"enabled": True, **scale},
        "data_types": {"grad_accum_dtype": "fp32"},
        "communication_data_type": "fp32",
    }


def _zero(job: Job, layout: Layout) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": layout.stage}
    if not layout.stage:
        return zero
    bucket = min(BUCKET_SIZE, -(-job.parameters // BUCKET_ALIGNMENT) * BUCKET_ALIGNMENT)
    zero |= {"contiguous_gradients": True, "overlap_comm": layout.device == "cuda"}
    zero |= {"reduce_bucket_size": bucket, "allgather_bucket_size": bucket}
    pinned = {"pin_memory": layout.device == "cuda"}
    if layout.offload_optimizer != "none":
        zero["offload_optimizer"] = {"device": layout.offload_optimizer, **pinned}
    if layout.offload_optimizer == "nvme":
        zero["offload_optimizer"]["nvme_path"] = layout.nvme_path
        zero["sub_group_size"] = SWAPPED_NUMBERS
    if layout.offload_param:
        zero["offload_param"] = {"device": "cpu", **pinned}
    return zero
