"""Point out shapes that leave a part of an accelerator's matrix units unused."""

from __future__ import annotations

from jprep.train.backend import Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import default_target

ROWS, TPU_IDS, GPU_IDS = 8, 128, 8
"""Multiples that fill the units: rows, and ids of the vocabulary on a TPU (tiles of 8 × 128) and on a GPU."""


def shape_notes(job: Job, plan: Plan, host: Host) -> list[str]:
    """Return notes on rows and a vocabulary that do not fill the matrix units, with the option to change.

    Args:
        job: the job.
        plan: the backend's plan.
        host: this host.
    """
    unused = job.train.model.pad_vocab and not plan.vocabulary
    notes = [f"train.model.pad_vocab has no effect on the backend {job.backend}"] if unused else []
    target = plan.target or default_target(plan, host)
    if target.kind == "cpu":
        return notes
    devices = max(1, target.count // max(1, plan.processes))
    rows = plan.micro_batch // devices
    unit = TPU_IDS if target.kind == "tpu" else GPU_IDS
    return [*notes, *_rows(job, rows), *_vocabulary(job, plan.vocabulary, unit, target.kind)]


def _rows(job: Job, rows: int) -> list[str]:
    if rows % ROWS == 0:
        return []
    what = f"the micro-batch of a device, {rows}, is not a multiple of {ROWS}"
    return [f"{what}: set train.backend.{job.backend}.micro_batch, or train.batch, so that it is"]


def _vocabulary(job: Job, padded: int, unit: int, kind: str) -> list[str]:
    ids = int(job.model.get("vocab_size", 0))
    if (padded or ids) % unit == 0:
        return []
    what = f"{ids:,} ids are not a multiple of {unit}, which a {kind.upper()}'s matrix units process at a time"
    if not padded:
        return [f"{what}: train a tokenizer with such a vocab_size"]
    return [f"{what}: --set train.model.pad_vocab={max(unit, TPU_IDS)} pads the embedding; exports stay unpadded"]
