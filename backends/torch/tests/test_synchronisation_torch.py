"""A step reads nothing from the device: losses, counts and norms stay there until they are logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.worker.session import Session
from jprep_torch.options import Options
from jprep_torch.worker.distributed.context import join_processes, process_timeout
from jprep_torch.worker.train_state import TrainState
from jprep_torch.worker.trainer import Trainer

WAITING = {
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default,
}  # fmt: skip
"""Operations that wait for a GPU: they read a number, or return as many as they find."""


class Reads(TorchDispatchMode):
    """Counts operations that wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function in WAITING
        return function(*args, **(kwargs or {}))


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
        with Reads() as reads:
            for _ in range(3):
                trainer._step(*next(batches))
        assert reads.count == 0
        assert len(trainer._unchecked) == 4
        batches.close()  # type: ignore[attr-defined]
