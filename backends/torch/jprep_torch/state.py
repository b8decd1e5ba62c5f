"""A checkpoint's files, as `jprep.train.saved` has them: gathered tensor by tensor, written by the first process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.train.saved import OPTIMIZER, WEIGHTS, Progress, Saved, averages, write, write_progress
from jprep.train.tensor_file import Floats, Shape
from jprep_torch.spreading import Spread, gathered

_KEPT = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(folder: Path, spread: Spread, optimizer: torch.optim.Optimizer, progress: Progress, rank: int) -> None:
    """Fill a checkpoint's folder. Each process takes part; the first one writes."""
    if rank and not spread.divided:  # each has all of it
        return
    _write(folder, WEIGHTS, spread.shapes, spread.whole, rank)
    shapes = averages(spread.shapes, spread.weights)
    _write(folder, OPTIMIZER, shapes, lambda name: _average(name, spread, optimizer), rank)
    if not rank:
        write_progress(folder, progress)


def restore(saved: Saved, spread: Spread, optimizer: torch.optim.Optimizer) -> None:
    """Give the optimizer what a checkpoint kept of it; the weights are loaded."""
    for name, weight in spread.weights.items():
        tensors = {mark: torch.from_numpy(saved.averages[f"{mark}.{name}"]) for mark in _KEPT}
        kept = {_KEPT[mark]: spread.placed(name, tensor) for mark, tensor in tensors.items()}
        optimizer.state[weight] = {"step": torch.tensor(float(saved.progress.updates), device=weight.device), **kept}


def _average(name: str, spread: Spread, optimizer: torch.optim.Optimizer) -> Tensor:
    mark, _, own = name.partition(".")
    weight = spread.weights[own]
    kept: dict[str, Any] = optimizer.state.get(weight, {})
    if _KEPT[mark] not in kept:  # nothing was updated yet
        return torch.zeros(spread.shapes[own])
    return gathered(kept[_KEPT[mark]])


def _write(folder: Path, kind: str, shapes: Mapping[str, Shape], tensor: Callable[[str], Tensor], rank: int) -> None:
    """Tensors are gathered one at a time."""

    def blocks(name: str) -> Iterator[Floats]:
        yield tensor(name).float().numpy()

    if not rank:
        write(folder, kind, shapes, blocks)
    else:
        for name in shapes:
            tensor(name)
