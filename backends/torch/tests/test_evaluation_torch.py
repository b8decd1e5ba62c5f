"""The memory of an evaluation: the model without the state of its optimizer."""

from __future__ import annotations

from pathlib import Path

import torch

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.run.directory import INIT, checkpoints_of, read_job
from jprep_torch.options import Options
from jprep_torch.worker.distributed.context import join_processes
from jprep_torch.worker.train_state import TrainState


def test_an_evaluation_reads_no_state_of_the_optimizer(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu"})
    run = bench.train(bench.prepare("gpt2-clm", steps=2, schedule={}, checkpoint={"every_steps": 2})).run
    job = read_job(run)
    [checkpoint] = checkpoints_of(run, job).committed()
    with join_processes("cpu", deterministic=True, timeout=60) as context:
        trained, evaluated = (
            TrainState(job, run / INIT, checkpoint.folder, context, Options(), shard=False, trains=trains)
            for trains in (True, False)
        )
        assert trained._optimizer.state and not evaluated._optimizer.state
        weights = trained.model.state_dict()
        for name, weight in evaluated.model.state_dict().items():
            assert torch.equal(weight, weights[name]), name
