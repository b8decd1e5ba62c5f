"""Measure the memory of two processes: a program for torchrun that prints the peak bytes of tensors of one process."""

from __future__ import annotations

import gc
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.job.config import Job
from jprep.train.run.directory import INIT, read_job
from jprep_deepspeed.worker.train_state import TrainState
from jprep_torch.models.model_with_loss import ModelInputs
from jprep_torch.worker.distributed.context import DistributedContext, join_processes

MARK = "second"


def measure(run: Path, job: Job, config: dict[str, Any], context: DistributedContext) -> int:
    """Return the bytes of a step: those before it, and the peak that it adds."""
    before = held()  # DeepSpeed keeps earlier engines
    state = TrainState(job, run / INIT, None, context, config, gradient_checkpointing=False)
    rows, length = config["train_micro_batch_size_per_gpu"], job.train.length
    ids = torch.randint(0, job.model["vocab_size"], (rows, length))
    labels = ids.clone()
    labels[:, 0] = IGNORE_INDEX  # nothing predicts it
    inputs = ModelInputs(ids, labels, torch.full((rows,), length), True, None)
    micro_batches = [inputs] * config["gradient_accumulation_steps"]

    def update() -> None:
        state.update(micro_batches, len(micro_batches) * ids.numel() * context.world, 1e-4, lambda norm: None)

    update()
    kept = held() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        update()  # the profiler does not see frees of earlier allocations
        with record_function(MARK):
            update()
    return kept + peak_allocation(list(profiled.profiler.kineto_results.events()))


def held() -> int:
    """Return the bytes of all tensors."""
    gc.collect()
    storages = [one.untyped_storage() for one in gc.get_objects() if isinstance(one, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def peak_allocation(events: list[Any]) -> int:
    """Return the largest number of bytes that were allocated since the mark and not freed."""
    start = next(event.start_ns() for event in events if event.name() == MARK)
    found = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]" and e.start_ns() >= start)
    current = peak = 0
    for _, size in found:
        current += size
        peak = max(peak, current)
    return peak


def main(run: Path, cases: list[dict[str, Any]]) -> None:
    """Measure each case: a precision, and DeepSpeed's configuration as `settings`."""
    job = read_job(run)
    torch.set_num_threads(1)
    with join_processes("cpu", deterministic=False, timeout=timedelta(minutes=5), alone=True) as context:
        for case in cases:
            train = msgspec.structs.replace(job.train, precision=case["precision"])
            found = measure(run, msgspec.structs.replace(job, train=train), case["settings"], context)
            if not context.rank:
                sys.stdout.write(f"took {found}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
