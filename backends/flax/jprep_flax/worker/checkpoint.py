"""What a checkpoint holds, copied from the devices at once and written while training goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from flax import nnx

from jprep.io.safetensors_file import Floats, Shape
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    TrainProgress,
    average_shapes,
    tensors_of_part,
    write_part,
    write_progress,
)
from jprep_flax.models import weights
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.optimizer import StateArrays


class Snapshot(NamedTuple):
    """A process's part of a checkpoint.

    Attributes:
        tensors: by transformers' names, and `m.NAME` and `v.NAME`: those that this process writes.
        shapes: of the weights among them; of the averages.
        progress: how far it is.
        rank: this process's number.
        world: how many there are.
    """

    tensors: dict[str, Floats]
    shapes: tuple[dict[str, Shape], dict[str, Shape]]
    progress: TrainProgress
    rank: int
    world: int

    def write(self, folder: Path) -> None:
        """Write it.

        Raises:
            OSError: the disk is full or not writable.
        """

        def blocks(name: str) -> Iterator[Floats]:
            yield self.tensors[name]

        for kind, shapes in zip((WEIGHTS, OPTIMIZER), self.shapes, strict=True):
            write_part(folder, kind, shapes, blocks, self.rank, self.world)
        if not self.rank:
            write_progress(folder, self.progress)


def snapshot(state: StateArrays, job: Job, place: DistributedContext) -> Snapshot:
    """Copy what this process writes. All take part: parts of an array are gathered on their way."""
    config, task = job.model, job.train.task
    every = parameters(config, task)
    whole = {name: tensor.shape for name, tensor in sorted(every.items())}
    own = tensors_of_part(whole, place.rank, place.world)
    kept = average_shapes(own, [name for name in own if every[name].trained])
    spots = {name: spot for name, spot in weights.tensor_locations(config, task).items() if name in own}
    tensors: dict[str, Floats] = {}
    for array in jax.tree.leaves(state) if place.world == 1 else ():
        array.copy_to_host_async()
    for mark, tree in (("", state.weights), ("m.", state.m), ("v.", state.v)):
        copies = _copies(tree, {spot.path for spot in spots.values()}, place)
        tensors |= {mark + name: weights.extract_tensor(copies[spot.path], spot) for name, spot in spots.items()}
    progress = TrainProgress(*(place.whole(one).item() for one in state[3:]))
    return Snapshot(tensors, (own, kept), progress, place.rank, place.world)


def _copies(tree: nnx.State, wanted: set[weights.Path], place: DistributedContext) -> dict[weights.Path, Floats]:
    """The arrays that are wanted; the others are gathered for the processes that want them."""
    copies = ((path, place.whole(one[...])) for path, one in nnx.to_flat_state(tree))
    return {path: copy for path, copy in copies if path in wanted}
