"""Repeat the steps of a Flax run on batches that are already on the devices; print their throughput as JSON.

`python flax_ready.py RUN`, in the backend's environment. The difference to the throughput of `jprep train` is the time
that the devices wait for batches, figures and checkpoints.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from jprep.train.planning.host import this_host
from jprep.train.run.directory import INIT, read_job
from jprep.train.worker.batches import Batches
from jprep_flax.backend import Flax
from jprep_flax.planning.layout import choose_layout
from jprep_flax.worker.data import BatchLoader
from jprep_flax.worker.distributed import join_processes
from jprep_flax.worker.train_state import TrainState


def main() -> None:
    run = Path(sys.argv[1])
    job = read_job(run)
    layout = choose_layout(job, Flax().read_options(job.options), this_host(Path(sys.executable)))
    with join_processes(layout, rank=0, coordinator="", exact=True, deterministic=True, timeout=60.0) as context:
        state = TrainState(job, run / INIT, None, context, layout, gradient_checkpointing=False)
        load, batches, warmup = BatchLoader(job, layout, context), Batches(run, job).train, job.train.log_every
        loaded = [load(batches.batch(step)) for step in range(job.steps)]
        for step, batch in enumerate(loaded, 1):
            result = state.update(step, batch.inputs, job.train.optimizer.lr)
            if step == warmup:
                result.loss.block_until_ready()
                start = time.perf_counter()
        result.loss.block_until_ready()
        tokens = sum(batch.tokens for batch in loaded[warmup:])
        print(json.dumps(tokens / (time.perf_counter() - start)))


if __name__ == "__main__":
    main()
