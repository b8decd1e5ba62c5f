"""A checkpoint (`jprep.train.run.checkpoint_files`): gathered tensor by tensor, written by the first process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.io.safetensors_file import Floats
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    write_from_first,
    write_progress,
)
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.parallel_model import ParallelModel, whole_tensor

_STATE_KEYS = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(
    folder: Path,
    model: ParallelModel,
    optimizer: torch.optim.Optimizer,
    progress: TrainProgress,
    context: DistributedContext,
) -> None:
    """Write a checkpoint. Each process takes part; the first one writes.

    Args:
        folder: the directory, which exists.
        model: the model.
        optimizer: its optimizer.
        progress: number of updates and the loss scale.
        context: this process's device and rank.
    """
    first = context.first
    if not (context.saves or model.sharded):
        return
    write_from_first(folder, WEIGHTS, model.shapes, lambda name: [_array(model.whole_weight(name))], first=first)
    shapes = average_shapes(model.shapes, model.weights)
    write_from_first(folder, OPTIMIZER, shapes, lambda name: [_array(_average(name, model, optimizer))], first=first)
    if first:
        write_progress(folder, progress)


def restore(saved: CheckpointReader, model: ParallelModel, optimizer: torch.optim.Optimizer) -> None:
    """Restore the optimizer's state from a checkpoint.

    Args:
        saved: the checkpoint.
        model: the model, with the checkpoint's weights.
        optimizer: its optimizer.
    """
    for name, weight in model.weights.items():
        tensors = {mark: torch.from_numpy(saved.averages[f"{mark}.{name}"]) for mark in _STATE_KEYS}
        state = {_STATE_KEYS[mark]: model.place_like(name, tensor) for mark, tensor in tensors.items()}
        optimizer.state[weight] = {"step": torch.tensor(float(saved.progress.updates), device=weight.device), **state}


def _average(name: str, model: ParallelModel, optimizer: torch.optim.Optimizer) -> Tensor:
    """Return an average by its name in the file, `m.NAME` or `v.NAME`."""
    mark, _, weight_name = name.partition(".")
    state: dict[str, Any] = optimizer.state.get(model.weights[weight_name], {})
    if _STATE_KEYS[mark] not in state:  # before the first update
        return torch.zeros(model.shapes[weight_name])
    return whole_tensor(state[_STATE_KEYS[mark]])


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().numpy()
    return found
