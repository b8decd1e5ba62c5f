"""A checkpoint (`jprep.train.run.checkpoint_files`): gathered tensor by tensor, written by the first process."""

from __future__ import annotations

from collections.abc import Callable
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
    write_from_first,
    write_progress,
)
from jprep_torch.models.expert_weights import FileTensors, read_weight
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.parallel_model import ParallelModel, whole_tensor
from jprep_torch.worker.optimizer import shapes_of_averages
from jprep_torch.worker.update_rules.adamw_8bit import AdamW8bit

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
    weights = FileTensors(model.shapes, model.whole_weight)
    shapes = shapes_of_averages(optimizer, model.shapes, model.weights)
    averages = FileTensors(shapes, lambda name: _average(name, model, optimizer))
    for kind, tensors in ((WEIGHTS, weights), (OPTIMIZER, averages)):
        write_from_first(folder, kind, tensors.shapes, _blocks_of(tensors), first=first)
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
        own = shapes_of_averages(optimizer, model.shapes, [name])
        # The name of an average begins with its kind: `m.NAME` or `v.NAME`.
        tensors = {average[0]: torch.from_numpy(read_weight(saved.averages, average)) for average in own}
        state = {_STATE_KEYS[kind]: model.place_like(name, tensor) for kind, tensor in tensors.items()}
        if isinstance(optimizer, AdamW8bit):
            optimizer.set_averages(weight, saved.progress.updates, state)
            continue
        optimizer.state[weight] = {"step": torch.tensor(float(saved.progress.updates), device=weight.device), **state}


def _average(name: str, model: ParallelModel, optimizer: torch.optim.Optimizer) -> Tensor:
    """Return an average by its name, `m.NAME` or `v.NAME`."""
    kind, _, weight_name = name.partition(".")
    state: dict[str, Any] = optimizer.state.get(model.weights[weight_name], {})
    if _STATE_KEYS[kind] not in state:  # before the first update
        return torch.zeros(model.shapes[weight_name])
    if isinstance(optimizer, AdamW8bit):
        return whole_tensor(optimizer.average(model.weights[weight_name], _STATE_KEYS[kind]))
    return whole_tensor(state[_STATE_KEYS[kind]])


def _blocks_of(tensors: FileTensors) -> Callable[[str], list[Floats]]:
    return lambda name: [_array(tensors[name])]


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().numpy()
    return found
