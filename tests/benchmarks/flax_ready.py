"""A Flax run's steps again, on batches that lie on the devices already; prints their pace as JSON.

`python flax_ready.py RUN`, in the backend's environment. By as much as `jprep train` is slower the devices wait for
batches, figures and whatever else is no step.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import msgspec

from jprep.train.planning.host import this_host
from jprep.train.run.directory import read_job
from jprep.train.worker.batches import Batches
from jprep_flax.options import Options
from jprep_flax.planning.layout import choose_layout
from jprep_flax.worker.data import BatchLoader
from jprep_flax.worker.distributed import join_processes
from jprep_flax.worker.train_state import TrainState


def main() -> None:
    run = Path(sys.argv[1])
    job = read_job(run)
    layout = choose_layout(job, msgspec.convert(job.options, Options), this_host(Path(sys.executable)))
    with join_processes(layout, rank=0, coordinator="", exact=True, deterministic=True, patience=60.0) as place:
        updater, feeder = TrainState(job, run, None, place, layout, recompute=False), BatchLoader(job, layout, place)
        batches, warm = Batches(run, job).train, job.train.log_every
        ready = [feeder(batches.batch(step)) for step in range(job.steps)]
        for step, fed in enumerate(ready, 1):
            updated = updater.update(step, fed.rows, job.train.optimizer.lr)
            if step == warm:
                updated.loss.block_until_ready()
                begun = time.perf_counter()
        updated.loss.block_until_ready()
        tokens = sum(fed.tokens for fed in ready[warm:])
        print(json.dumps(tokens / (time.perf_counter() - begun)))


if __name__ == "__main__":
    main()
