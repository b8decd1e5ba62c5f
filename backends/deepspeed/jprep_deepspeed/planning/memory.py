"""Estimates of the memory of a process in each ZeRO stage, calibrated with two processes on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jprep.train.job.config import Job
from jprep.train.planning.memory_estimate import estimate_activations, muon_savings
from jprep_deepspeed.planning.layout_types import Layout
from jprep_torch.planning.memory import keeps_attention

_FP32, _HALF, _ADAM = 4, 2, 8  # bytes of a number; of AdamW's two averages
_ALL_REDUCE = 500_000_000  # numbers that DeepSpeed reduces at a time if gradients are not sharded
_BUCKET = 500_000_000  # default bucket size of zero_optimization
_GATHERED = {"stage3_max_live_parameters": 1_000_000_000, "stage3_prefetch_bucket_size": 50_000_000}
_SWAPPED = 16  # bytes of a number in the group that is updated, with an optimizer state in files
_REDUCED_HALF = 8  # bytes of a half-precision number while it is reduced: itself, in fp32, and the result


class MemoryEstimate(NamedTuple):
    """Estimated bytes of one process.

    Attributes:
        weights: weights of the forward pass, and the fp32 weights that are updated.
        gradients: accumulated gradients.
        optimizer: AdamW's averages, and Muon's momentum.
        activations: what layers keep for the backward pass.
        buffers: for communication, and stage 3's gathered weights.
        total: the peak: at the end of the forward pass, or while gradients are reduced.
        host: bytes in main memory, with offloading.
        disk: bytes in files, with an optimizer state there.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int
    total: int
    host: int = 0
    disk: int = 0

    def parts(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the bytes of each part. The peak does not contain all of them."""
        for name in self._fields[:5]:
            yield name, getattr(self, name)


class _Gradients(NamedTuple):
    """Bytes of gradients.

    Attributes:
        summed: accumulated gradients.
        kept: gradients that exist during the forward pass.
        sent: additional bytes while gradients are reduced.
    """

    summed: int
    kept: int
    sent: int


def estimate_memory(job: Job, layout: Layout, zero: Mapping[str, Any]) -> MemoryEstimate:
    """Return the estimated memory of one process.

    Args:
        job: the job.
        layout: its processes, ZeRO stage and micro-batch.
        zero: DeepSpeed's `zero_optimization`.
    """
    count, number = job.parameters, _FP32 if job.train.precision == "fp32" else _HALF
    part = -(-count // layout.world) if layout.stage else count
    gradients, activations = _gradients(count, number, part, layout, zero), _activations(job, layout)
    weights, master, gathered = _weights(count, number, part, layout, zero)
    optimizer = _ADAM * part - muon_savings(job) * part // count
    host, disk = _away(master + optimizer, part, layout, zero)
    if layout.offload_optimizer != "none":
        master = optimizer = 0
        gradients = _Gradients(0, 0, gradients.sent)
    if layout.offload_param:
        host, weights = host + weights, 0
    buffers = max(gradients.sent, gathered)
    peak = max(activations + gathered + gradients.kept, gradients.summed + buffers)
    total = weights + master + optimizer + peak
    return MemoryEstimate(weights + master, gradients.summed, optimizer, activations, buffers, total, host, disk)


def _away(state: int, part: int, layout: Layout, zero: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of an offloaded optimizer state in main memory, and in files.

    Args:
        state: bytes of fp32 weights and averages.
        part: number of weights of this process.
        layout: where they are kept.
        zero: DeepSpeed's `zero_optimization`.
    """
    if layout.offload_optimizer == "none":
        return 0, 0
    if layout.offload_optimizer == "cpu":
        return state + 2 * _FP32 * part, 0  # accumulated gradients, and those being accumulated
    held = min(part, int(zero.get("sub_group_size", part)))
    return _SWAPPED * held + _FP32 * part, state + _FP32 * part


def _weights(count: int, number: int, part: int, layout: Layout, zero: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the bytes of the weights of the forward pass, of separate fp32 weights, and of gathered weights."""
    if not layout.stage:  # autocast makes copies in half precision, which the backward pass needs
        return _FP32 * count, 0, (number * count if number == _HALF else 0)
    if layout.stage < 3:
        return number * count, _FP32 * part, 0
    gathered = sum(min(count, int(zero.get(key, size))) for key, size in _GATHERED.items())
    return number * part, _FP32 * part, number * gathered


def _gradients(count: int, number: int, part: int, layout: Layout, zero: Mapping[str, Any]) -> _Gradients:
    """Return the bytes of gradients as measured with two processes."""
    more, half, summed = layout.accumulate > 1, number == _HALF, _FP32 * part
    all_reduced = _FP32 * min(count, _ALL_REDUCE) if layout.world > 1 else 0
    bucket = min(count, int(zero.get("reduce_bucket_size", _BUCKET))) * (2 if zero.get("overlap_comm") else 1)
    if not layout.stage:
        return _Gradients(_FP32 * count, _FP32 * count * more, all_reduced)
    if layout.stage == 1 and half:  # accumulated in fp32, unsharded
        return _Gradients(_FP32 * count, _FP32 * count, _HALF * count + all_reduced)
    if layout.stage == 1:
        return _Gradients(_FP32 * count, _FP32 * count * more + _FP32 * bucket, max(summed, _FP32 * bucket))
    if layout.stage == 3:
        return _Gradients(summed, summed + _FP32 * bucket, _FP32 * bucket)
    if half:  # reduced during the backward pass, or all at its end
        sent = (_REDUCED_HALF if bucket < count else _HALF) * bucket
        return _Gradients(summed, summed * more + _HALF * bucket, sent)
    return _Gradients(summed, 2 * summed * more + _FP32 * bucket, summed + _FP32 * bucket)


def _activations(job: Job, layout: Layout) -> int:
    attention = keeps_attention(job.model, layout.device)
    checkpointing = layout.gradient_checkpointing
    return estimate_activations(job, layout.micro_batch, attention=attention, gradient_checkpointing=checkpointing)
