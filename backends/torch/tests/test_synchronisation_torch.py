"""A step reads nothing from the device: losses, counts and norms stay there until they are logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.worker.session import Session
from jprep_torch.options import Options
from jprep_torch.worker.distributed.context import join_processes, process_timeout
from jprep_torch.worker.train_state import TrainState
from jprep_torch.worker.trainer import Trainer
from tests.fakes.device_reads import DeviceReads


@contextmanager
def trainer_of(run: Path) -> Iterator[Trainer]:
    """Yield the trainer of a prepared run, in this process."""
    session = Session(run)
    timeout = process_timeout(session.job)
    with join_processes("cpu", deterministic=True, timeout=timeout) as context:
        state = TrainState(session.job, session.initial_weights, None, context, Options(), shard=False)
        yield Trainer(session, context, state, session.job.train.batch)
    session.close()


@pytest.mark.parametrize("case", ["gpt2-clm", "llama-documents", "electra-rtd"])
def test_steps_read_nothing_from_the_device(case: str, tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu"})
    prepared = bench.prepare(case, log_every=100, validation={}, checkpoint={"every_steps": 0})
    with trainer_of(prepared.run) as trainer:
        batches = trainer._batches()
        trainer._step(*next(batches))  # the first step creates the optimizer's averages
        with DeviceReads() as reads:
            for _ in range(3):
                trainer._step(*next(batches))
        assert reads.callers == []
        assert len(trainer._unchecked) == 4
        batches.close()  # type: ignore[attr-defined]
