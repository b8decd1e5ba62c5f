"""A checkpoint (`jprep.train.run.checkpoint_files`), written without gathering tensors.

The first process writes what every process holds; of sharded tensors each process writes its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jprep.io.safetensors_file import Floats, Shape
from jprep.io.tensor_pieces import Piece
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointPart,
    CheckpointReader,
    ShapedTensors,
    TrainProgress,
    blocks_of,
    write_from_first,
    write_progress,
)
from jprep_torch.models.expert_weights import FileTensors, read_weight
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.parallel_model import ParallelModel
from jprep_torch.worker.distributed.sharded_tensors import local_part, sharded_rows
from jprep_torch.worker.optimizer import shapes_of_averages
from jprep_torch.worker.update_rules.adamw_8bit import AdamW8bit

_STATE_KEYS = {"m": "exp_avg", "v": "exp_avg_sq"}


class _StateTensors(NamedTuple):
    """The weights of a model, or the averages of its optimizer.

    Attributes:
        shapes: shapes of the whole tensors by name.
        read: returns one of them as this process has it, which may be sharded.
    """

    shapes: Mapping[str, Shape]
    read: Callable[[str], Tensor]

    @property
    def in_files(self) -> FileTensors:
        """The tensors that a checkpoint has, if they are not sharded."""
        return FileTensors(self.shapes, self.read)


class _LazyArrays(ShapedTensors):
    """Tensors of files, or pieces of them; each is read from its device when it is asked for.

    Args:
        tensors: the tensors, or this process's parts of them.
        names: their names by the keys of this mapping; by default the keys are the names.
    """

    def __init__(self, tensors: FileTensors, names: Mapping[str, str] | None = None) -> None:
        self._tensors, self._names = tensors, names or {name: name for name in tensors}

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes by key."""
        return {key: self._tensors.shapes[name] for key, name in self._names.items()}

    def __getitem__(self, key: str) -> Floats:
        return _array(self._tensors[self._names[key]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def own_part(
    model: ParallelModel, optimizer: torch.optim.Optimizer, progress: TrainProgress, context: DistributedContext
) -> CheckpointPart | None:
    """Return what this process writes of a checkpoint; None for nothing.

    Tensors are read from the device when they are written: before the next update, or from `take_snapshot`'s copies.

    Args:
        model: the model.
        optimizer: its optimizer.
        progress: number of updates and the loss scale.
        context: this process's device and rank.
    """
    if not (context.first or model.sharded):
        return None
    sources = _sources(model, optimizer)
    whole = [source.in_files for source in sources]
    shapes = whole[0].shapes, whole[1].shapes
    if not model.sharded:
        weights, averages = map(_LazyArrays, whole)
        return CheckpointPart(weights, averages, shapes, progress)
    weights, averages = (_pieces(source, context.rank, context.world) for source in sources)
    return CheckpointPart(weights, averages, shapes, progress, context.rank, context.world, divided=True)


def take_snapshot(part: CheckpointPart) -> CheckpointPart:
    """Return a part of a checkpoint whose tensors are copied from an accelerator to main memory."""
    return part._replace(weights=dict(part.weights), averages=dict(part.averages))


def save_from_xla(
    folder: Path,
    model: ParallelModel,
    optimizer: torch.optim.Optimizer,
    progress: TrainProgress,
    context: DistributedContext,
) -> None:
    """Write a checkpoint of an XLA program: all its hosts compute what the first one writes, a tensor at a time."""
    for kind, source in zip((WEIGHTS, OPTIMIZER), _sources(model, optimizer), strict=True):
        tensors = source.in_files
        write_from_first(folder, kind, tensors.shapes, blocks_of(_LazyArrays(tensors)), first=context.first)
    if context.first:
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


def _sources(model: ParallelModel, optimizer: torch.optim.Optimizer) -> tuple[_StateTensors, _StateTensors]:
    """Return the weights of a model and the averages of its optimizer."""
    shapes = shapes_of_averages(optimizer, model.shapes, model.weights)
    averages = _StateTensors(shapes, lambda name: _average(name, model, optimizer))
    return _StateTensors(model.shapes, model.weight), averages


def _average(name: str, model: ParallelModel, optimizer: torch.optim.Optimizer) -> Tensor:
    """Return an average by its name, `m.NAME` or `v.NAME`; sharded as the weight is."""
    kind, _, weight_name = name.partition(".")
    weight, key = model.weights[weight_name], _STATE_KEYS[kind]
    state: dict[str, Any] = optimizer.state.get(weight, {})
    if key not in state:  # before the first update
        return torch.zeros_like(weight)
    found: Tensor = optimizer.average(weight, key) if isinstance(optimizer, AdamW8bit) else state[key]
    return found


def _pieces(source: _StateTensors, rank: int, world: int) -> _LazyArrays:
    """Return the rows of sharded tensors that a process has, as pieces; the matrices of experts are whole."""
    rows = {name: sharded_rows(shape[0], rank, world) for name, shape in source.shapes.items()}
    own = {name: (len(rows[name]), *shape[1:]) for name, shape in source.shapes.items() if rows[name]}
    first = {name: rows[name].start for name in own}
    tensors = FileTensors(own, lambda name: local_part(source.read(name)), first)
    views = source.in_files.shapes
    pieces = {name: Piece(name, views[name], (first.get(name, 0), *[0] * (len(views[name]) - 1))) for name in tensors}
    return _LazyArrays(tensors, {piece.key: name for name, piece in pieces.items()})


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().float().cpu().numpy()
    return found
