"""A checkpoint's files: gathered tensor by tensor, written by the first process."""

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
from jprep_torch.worker.distributed import DistributedContext
from jprep_torch.worker.parallel import ParallelModel, gathered

_KEPT = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(
    folder: Path,
    spread: ParallelModel,
    optimizer: torch.optim.Optimizer,
    progress: TrainProgress,
    place: DistributedContext,
) -> None:
    """Fill a checkpoint's folder. Each process takes part; the first one writes."""
    first = place.first
    if not (place.saves or spread.divided):
        return
    write_from_first(folder, WEIGHTS, spread.shapes, lambda name: [_numbers(spread.whole(name))], first=first)
    shapes = average_shapes(spread.shapes, spread.weights)
    write_from_first(folder, OPTIMIZER, shapes, lambda name: [_numbers(_average(name, spread, optimizer))], first=first)
    if first:
        write_progress(folder, progress)


def restore(saved: CheckpointReader, spread: ParallelModel, optimizer: torch.optim.Optimizer) -> None:
    """Give the optimizer what a checkpoint kept of it; the weights are loaded."""
    for name, weight in spread.weights.items():
        tensors = {mark: torch.from_numpy(saved.averages[f"{mark}.{name}"]) for mark in _KEPT}
        kept = {_KEPT[mark]: spread.placed(name, tensor) for mark, tensor in tensors.items()}
        optimizer.state[weight] = {"step": torch.tensor(float(saved.progress.updates), device=weight.device), **kept}


def _average(name: str, spread: ParallelModel, optimizer: torch.optim.Optimizer) -> Tensor:
    mark, _, own = name.partition(".")
    weight = spread.weights[own]
    kept: dict[str, Any] = optimizer.state.get(weight, {})
    if _KEPT[mark] not in kept:  # nothing was updated yet
        return torch.zeros(spread.shapes[own])
    return gathered(kept[_KEPT[mark]])


def _numbers(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().numpy()
    return found
