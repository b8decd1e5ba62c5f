"""A checkpoint's content, copied from the devices at once and written while training continues.

Each process copies and writes what its own devices hold, and nothing is gathered: whole tensors if every process has
all of them, else pieces, which the first process joins on the disk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from flax import nnx
from jax import Array

from jprep.io.safetensors_file import Floats, Shape
from jprep.io.tensor_pieces import Piece, place_piece
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.run.checkpoint_files import (
    AVERAGES,
    CheckpointPart,
    TrainProgress,
    average_shapes,
    tensors_of_part,
)
from jprep_flax.models import weights
from jprep_flax.models.sharding import Index, local_shards, shard_holders
from jprep_flax.models.weights import TensorLocation
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.optimizer import StateArrays

Shards = dict[str, list[Index]]
"""Name of a tensor → the shards of its array from which a process copies it, or its part of it."""


class _Share(NamedTuple):
    """What one process copies of the weights and averages.

    Attributes:
        shards: the shards from which a weight is copied; its averages have the same.
        locations: locations of the weights.
        divided: whether pieces are copied.
    """

    shards: Shards
    locations: Mapping[str, TensorLocation]
    divided: bool

    def copies(self, tree: nnx.State, shapes: Mapping[str, Shape], prefix: str = "") -> dict[str, Floats]:
        """Return copies of tensors by their names, or of pieces by their keys.

        Args:
            tree: the weights, or an average of them.
            shapes: the tensors of the checkpoint; the tree may have others.
            prefix: what the names of the tensors have before those of the weights.
        """
        arrays, found = dict(nnx.to_flat_state(tree)), dict[str, Floats]()
        for name, indices in self.shards.items():
            if (key := prefix + name) in shapes:
                location = self.locations[name]
                pieces = _pieces(key, arrays[location.path][...], location, indices)
                found |= _divided(pieces) if self.divided else {key: _whole(pieces, shapes[key])}
        return found


def snapshot(state: StateArrays, job: Job, context: DistributedContext) -> CheckpointPart:
    """Copy what this process writes."""
    specs = parameters(job.model, job.train.objective)
    shapes = {name: tensor.shape for name, tensor in sorted(specs.items())}
    averages = average_shapes(shapes, [name for name in shapes if specs[name].trained], job.train.optimizer.kind)
    share = _own_share(state.weights, weights.tensor_locations(job.model, job.train.objective), shapes, context)
    for array in jax.tree.leaves(state) if context.world == 1 else ():
        array.copy_to_host_async()
    copied = share.copies(state.weights, shapes)
    m, v = (share.copies(tree, averages, f"{mark}.") for mark, tree in zip(AVERAGES, state[1:3], strict=True))
    progress = TrainProgress(*(np.asarray(number.addressable_data(0)).item() for number in state[3:]))
    return CheckpointPart(copied, m | v, (shapes, averages), progress, context.rank, context.world, share.divided)


def _own_share(
    state: nnx.State, locations: Mapping[str, TensorLocation], shapes: Mapping[str, Shape], context: DistributedContext
) -> _Share:
    """Return what this process copies: pieces if a process does not hold all weights."""
    by_path = {path: shard_holders(one[...]) for path, one in nnx.to_flat_state(state)}
    holders = {name: by_path[locations[name].path] for name in shapes}
    if any(len(processes) < context.world for shards in by_path.values() for processes in shards.values()):
        return _Share(shards_of_process(holders, locations, context.rank), locations, divided=True)
    whole = {name: [*holders[name]] for name in tensors_of_part(shapes, context.rank, context.world)}
    return _Share(whole, locations, divided=False)


def shards_of_process(
    holders: Mapping[str, Mapping[Index, list[int]]], locations: Mapping[str, TensorLocation], rank: int
) -> Shards:
    """Return the shards that a process writes; of the processes that hold one, that with the least so far writes it.

    Args:
        holders: name of a tensor → the shards of its array, each with the processes that hold it.
        locations: locations of the tensors.
        rank: the process.
    """
    own: Shards = {}
    numbers = Counter[int]()
    for name, shards in holders.items():
        for index, processes in shards.items():
            writer = min(processes, key=lambda process: (numbers[process], process))
            numbers[writer] += math.prod(last - first for first, last in locations[name].in_layer(index))
            if writer == rank:
                own.setdefault(name, []).append(index)
    return own


def _pieces(key: str, array: Array, location: TensorLocation, indices: list[Index]) -> list[tuple[Piece, Floats]]:
    """Return the parts of a tensor in some shards of its array, without rows that only pad an embedding.

    The numbers may lie in memory that the next step overwrites.
    """
    shards, view, found = local_shards(array), location.view(array.shape), []
    for index in indices:
        numbers = np.asarray(shards[index], np.float32)
        numbers = np.atleast_1d(numbers if location.layer is None else numbers[location.layer])
        start = tuple(first for first, _ in location.in_layer(index)) or (0,)
        if (numbers := numbers[: max(0, view[0] - start[0])]).size:
            found.append((Piece(key, view, start), numbers))
    return found


def _divided(pieces: list[tuple[Piece, Floats]]) -> dict[str, Floats]:
    return {piece.key: np.array(numbers) for piece, numbers in pieces}


def _whole(pieces: list[tuple[Piece, Floats]], shape: Shape) -> Floats:
    """Join all pieces of a tensor."""
    joined = np.empty(pieces[0][0].view, np.float32)
    for piece, numbers in pieces:
        place_piece(joined, piece.start, numbers)
    return joined.reshape(shape)
