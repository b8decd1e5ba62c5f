"""How much memory a process takes in each of ZeRO's stages: by arithmetic, and held against what two processes take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jprep.train.job.config import Job
from jprep.train.models import training_memory
from jprep_deepspeed.options import Layout

_FP32, _HALF, _ADAM = 4, 2, 8  # bytes of a number; of AdamW's two averages
_ALL_REDUCE = 500_000_000  # numbers that DeepSpeed sends at a time where gradients are not divided
_BUCKET = 500_000_000  # numbers of zero_optimization, if nothing is said
_WHOLE = {"stage3_max_live_parameters": 1_000_000_000, "stage3_prefetch_bucket_size": 50_000_000}
_SENT_HALF = 8  # bytes of a number on its way in half precision: itself and in fp32, and what comes back
_RECOMPUTED = 3  # a layer's input is less than a third of what it keeps


class MemoryEstimate(NamedTuple):
    """Bytes of one process.

    Attributes:
        weights: those that are multiplied, and those in fp32 that are updated.
        gradients: summed up.
        optimizer: AdamW's averages.
        activations: what layers keep for the way back.
        buffers: for what is sent, and stage 3's weights while they are whole.
        total: the most at a time: at the end of the way forward, or where gradients meet.
        host: of the host's memory, where something is offloaded to it.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int
    total: int
    host: int = 0

    def parts(self) -> Iterator[tuple[str, int]]:
        """Each part's name and bytes; not all of them are there at a time."""
        for name in self._fields[:5]:
            yield name, getattr(self, name)


class _Gradients(NamedTuple):
    """Bytes of gradients: all of them, what is there while layers are computed, what is added while they are sent."""

    summed: int
    kept: int
    sent: int


def memory(job: Job, layout: Layout, zero: Mapping[str, Any]) -> MemoryEstimate:
    """An estimate.

    Args:
        job: the job.
        layout: how it lies on the devices.
        zero: DeepSpeed's `zero_optimization`.
    """
    count, number = job.parameters, _FP32 if job.train.precision == "fp32" else _HALF
    part = -(-count // layout.world) if layout.stage else count
    gradients, activations = _gradients(count, number, part, layout, zero), _activations(job, layout)
    weights, master, whole = _weights(count, number, part, layout, zero)
    optimizer, host = _ADAM * part, 0
    if layout.offload_optimizer:
        host = master + optimizer + 2 * _FP32 * part  # gradients, and those that are being summed up
        master = optimizer = 0
        gradients = _Gradients(0, 0, gradients.sent)
    if layout.offload_param:
        host, weights = host + weights, 0
    forward = activations + whole + gradients.kept
    back = gradients.summed + max(gradients.sent, whole)
    total = weights + master + optimizer + max(forward, back)
    buffers = max(gradients.sent, whole)
    return MemoryEstimate(weights + master, gradients.summed, optimizer, activations, buffers, total, host)


def _weights(count: int, number: int, part: int, layout: Layout, zero: Mapping[str, Any]) -> tuple[int, int, int]:
    """Weights that are multiplied; those in fp32 beside them; and what of them is whole for a while."""
    if not layout.stage:  # autocast makes halves on the way forward, which the way back needs
        return _FP32 * count, 0, (number * count if number == _HALF else 0)
    if layout.stage < 3:
        return number * count, _FP32 * part, 0
    whole = sum(min(count, int(zero.get(key, size))) for key, size in _WHOLE.items())
    return number * part, _FP32 * part, number * whole


def _gradients(count: int, number: int, part: int, layout: Layout, zero: Mapping[str, Any]) -> _Gradients:
    """As two processes were seen to have them."""
    more, half, summed = layout.accumulate > 1, number == _HALF, _FP32 * part
    all_reduced = _FP32 * min(count, _ALL_REDUCE) if layout.world > 1 else 0
    bucket = min(count, int(zero.get("reduce_bucket_size", _BUCKET))) * (2 if zero.get("overlap_comm") else 1)
    if not layout.stage:
        return _Gradients(_FP32 * count, _FP32 * count * more, all_reduced)
    if layout.stage == 1 and half:  # summed up in fp32, whole
        return _Gradients(_FP32 * count, _FP32 * count, _HALF * count + all_reduced)
    if layout.stage == 1:
        return _Gradients(_FP32 * count, _FP32 * count * more + _FP32 * bucket, max(summed, _FP32 * bucket))
    if layout.stage == 3:
        return _Gradients(summed, summed + _FP32 * bucket, _FP32 * bucket)
    if half:  # sent while others come, or all at the end
        sent = (_SENT_HALF if bucket < count else _HALF) * bucket
        return _Gradients(summed, summed * more + _HALF * bucket, sent)
    return _Gradients(summed, 2 * summed * more + _FP32 * bucket, summed + _FP32 * bucket)


def _activations(job: Job, layout: Layout) -> int:
    section, model = job.train, job.model
    length = section.labelled.length if section.data else section.length
    drops = model.get("attention_probs_dropout_prob") or model.get("attn_pdrop") or model.get("attention_dropout")
    attention = bool(drops) and layout.device == "cpu"  # GPUs have a kernel for it

    def estimate(rows: int) -> int:
        return training_memory(model, section.task, rows, length, section.precision, attention=attention, lean=True)

    kept = estimate(layout.rows) - estimate(0)
    return kept // _RECOMPUTED if layout.recompute else kept
