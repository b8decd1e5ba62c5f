"""Checkpoints: sharded weights are written by rows and joined, copies are written while training continues."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    join_pieces,
    write_pieces,
)
from jprep.train.worker.session import Session
from jprep_torch.models.expert_weights import read_weight
from jprep_torch.options import Options
from jprep_torch.worker.checkpoint import _pieces, _StateTensors, take_snapshot
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.sharded_tensors import sharded_rows
from jprep_torch.worker.train_state import TrainState
from jprep_torch.worker.trainer import CheckpointWriter, Trainer

STEPS = 6
EXPERTS = "model.layers.0.mlp.experts"
SHAPES = {
    f"{EXPERTS}.down_proj": (3, 5, 4),
    f"{EXPERTS}.gate_up_proj": (3, 8, 5),
    "model.norm.weight": (7,),
    "one.row": (1, 4),
}


@pytest.mark.parametrize("world", [1, 2, 3, 4, 9])
def test_rows_of_sharded_tensors_are_joined(tmp_path: Path, world: int) -> None:
    whole = {name: torch.rand(shape) for name, shape in SHAPES.items()}
    kinds = {WEIGHTS: whole, OPTIMIZER: {f"m.{name}": 2 * weight for name, weight in whole.items()}}
    for kind, tensors in kinds.items():
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for rank in range(world):

            def rows_of(name: str, rank: int = rank, tensors: dict[str, Tensor] = tensors) -> Tensor:
                rows = sharded_rows(len(tensors[name]), rank, world)
                return tensors[name][rows.start : rows.stop]

            source = _StateTensors(shapes, rows_of)
            write_pieces(tmp_path, kind, source.in_files.shapes, _pieces(source, rank, world), rank, world)
    join_pieces(tmp_path, world)
    saved = CheckpointReader(tmp_path)
    for name, weight in whole.items():
        assert np.array_equal(read_weight(saved.weights, name), weight.numpy())
        assert np.array_equal(read_weight(saved.averages, f"m.{name}"), 2 * weight.numpy())


def test_fsdp_divides_rows_as_checkpoints_expect() -> None:
    for rows in range(1, 12):
        for world in (1, 2, 3, 4, 8):
            chunks = [len(chunk) for chunk in torch.arange(rows).chunk(world)]
            found = [sharded_rows(rows, rank, world) for rank in range(world)]
            assert [len(each) for each in found if each] == chunks
            assert [row for each in found for row in each] == list(range(rows))


class CopyingState(TrainState):
    """Copies its checkpoints, as on a GPU; a copy is written after the next update, except that of the last step."""

    def checkpoint_writer(self) -> CheckpointWriter | None:
        taken = self._own_part()
        assert taken
        weights, averages = ({name: array.copy() for name, array in each.items()} for each in taken[:2])
        frozen = take_snapshot(taken._replace(weights=weights, averages=averages))
        after = min(taken.progress.updates + 1, STEPS)

        def write(folder: Path) -> None:
            while self._updates < after:
                time.sleep(0.01)
            frozen.write(folder)

        return write


def test_training_continues_while_a_copy_is_written(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu"})
    options = {"steps": STEPS, "checkpoint": {"every_steps": 2, "keep_last": 4}, "validation": {"every_steps": 0}}
    checkpoints = {}
    for kind in (TrainState, CopyingState):
        prepared = bench.prepare("gpt2-clm", **options)
        session = Session(prepared.run)
        context = DistributedContext("cpu")
        state = kind(session.job, session.initial_weights, None, context, Options(), shard=False)
        Trainer(session, context, state, session.job.train.batch).train()
        session.finish()
        checkpoints[kind] = prepared.run / "checkpoints"
    names = sorted(path.name for path in checkpoints[TrainState].iterdir())
    assert names == [f"step-{step:08d}" for step in (2, 4, 6)]
    for name in names:
        saved = [CheckpointReader(folder / name) for folder in checkpoints.values()]
        assert saved[0].progress == saved[1].progress == TrainProgress(int(name[-1]))
        for tensor in saved[0].weights:
            assert np.array_equal(saved[0].weights[tensor], saved[1].weights[tensor])
