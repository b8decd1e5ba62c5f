"""A checkpoint's files: weights, the optimizer's averages, and what else the next update needs. None is a pickle.

`model.safetensors` holds the weights as an export does. Files do not depend on the number of processes: a run may go
on with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from jprep.train.tensor_file import write_tensors
from jprep_torch.spreading import Spread, gathered
from jprep_torch.update import Scale

WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_AVERAGES = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(folder: Path, spread: Spread, optimizer: torch.optim.Optimizer, scale: Scale, updates: int, rank: int) -> None:
    """Fill a checkpoint's folder. Each process takes part; the first one writes."""
    if rank and not spread.divided:  # each has all of it
        return
    _write(folder / WEIGHTS, spread.shapes, spread.whole, rank)
    shapes = {f"{mark}.{name}": spread.shapes[name] for mark in _AVERAGES for name in spread.weights}
    _write(folder / OPTIMIZER, shapes, lambda name: _average(name, spread, optimizer), rank)
    if not rank:
        (folder / STATE).write_bytes(msgspec.json.encode({"updates": updates, **scale.state()}))


def restore(folder: Path, spread: Spread, optimizer: torch.optim.Optimizer, scale: Scale) -> int:
    """Go on from a checkpoint, whose weights are loaded; how many updates the averages have seen."""
    state = msgspec.json.decode((folder / STATE).read_bytes())
    scale.restore(state)
    with safe_open(folder / OPTIMIZER, framework="pt") as file:
        for name, weight in spread.weights.items():
            averages = {key: spread.placed(name, file.get_tensor(f"{mark}.{name}")) for mark, key in _AVERAGES.items()}
            optimizer.state[weight] = {"step": torch.tensor(float(state["updates"]), device=weight.device), **averages}
    return int(state["updates"])


def _average(name: str, spread: Spread, optimizer: torch.optim.Optimizer) -> Tensor:
    mark, _, own = name.partition(".")
    weight = spread.weights[own]
    kept: dict[str, Any] = optimizer.state.get(weight, {})
    if _AVERAGES[mark] not in kept:  # nothing was updated yet
        return torch.zeros(spread.shapes[own])
    return gathered(kept[_AVERAGES[mark]])


def _write(path: Path, shapes: dict[str, tuple[int, ...]], tensor: Callable[[str], Tensor], rank: int) -> None:
    """Tensors are gathered one at a time."""

    def blocks(name: str) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
        yield tensor(name).float().numpy()

    if not rank:
        write_tensors(path, shapes, blocks)
    else:
        for name in shapes:
            tensor(name)
