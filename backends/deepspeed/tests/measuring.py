"""What two processes hold: a program for torchrun. It prints the most bytes that tensors of one had."""

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

from jprep.train.job.config import Job
from jprep.train.run.directory import read_job
from jprep_deepspeed.worker.train_state import TrainState
from jprep_torch.models.model_with_loss import ModelInputs
from jprep_torch.worker.distributed import DistributedContext, join_processes

MARK = "second"


def taken(run: Path, job: Job, settings: dict[str, Any], place: DistributedContext) -> int:
    """Bytes of a step: what is there before it, and the most that it adds."""
    before = held()  # DeepSpeed lets go of no engine
    updater = TrainState(job, run, None, place, settings, recompute=False)
    rows, length = settings["train_micro_batch_size_per_gpu"], job.train.length
    ids = torch.randint(0, job.model["vocab_size"], (rows, length))
    parts = [ModelInputs(ids, ids, torch.full((rows,), length), True, None)] * settings["gradient_accumulation_steps"]

    def update() -> None:
        updater.update(parts, len(parts) * ids.numel() * place.world, 1e-4, lambda norm: None)

    update()
    kept = held() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        update()  # what it frees of earlier steps' is not seen
        with record_function(MARK):
            update()
    return kept + most_added(list(seen.profiler.kineto_results.events()))


def held() -> int:
    """Bytes of all tensors."""
    gc.collect()
    storages = [one.untyped_storage() for one in gc.get_objects() if isinstance(one, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def most_added(events: list[Any]) -> int:
    """The most that was allocated and not freed since the mark."""
    start = next(event.start_ns() for event in events if event.name() == MARK)
    found = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]" and e.start_ns() >= start)
    now = most = 0
    for _, size in found:
        now += size
        most = max(most, now)
    return most


def main(run: Path, cases: list[dict[str, Any]]) -> None:
    """Each case: a precision and settings."""
    job = read_job(run)
    torch.set_num_threads(1)
    with join_processes("cpu", deterministic=False, patience=timedelta(minutes=5), alone=True) as place:
        for case in cases:
            train = msgspec.structs.replace(job.train, precision=case["precision"])
            found = taken(run, msgspec.structs.replace(job, train=train), case["settings"], place)
            if not place.rank:
                sys.stdout.write(f"took {found}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
