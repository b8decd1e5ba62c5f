"""What a checkpoint holds, copied from the devices at once and written while training goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from flax import nnx

from jprep.train.job import Job
from jprep.train.models import parameters
from jprep.train.saved import OPTIMIZER, WEIGHTS, Progress, averages, share, write, write_progress
from jprep.train.tensor_file import Floats, Shape
from jprep_flax import weights
from jprep_flax.mesh import Place
from jprep_flax.update import State


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
    progress: Progress
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
            write(folder, kind, shapes, blocks, self.rank, self.world)
        if not self.rank:
            write_progress(folder, self.progress)


def snapshot(state: State, job: Job, place: Place) -> Snapshot:
    """Copy what this process writes. All take part: parts of an array are gathered on their way."""
    config, task = job.model, job.train.task
    every = parameters(config, task)
    whole = {name: tensor.shape for name, tensor in sorted(every.items())}
    own = share(whole, place.rank, place.world)
    kept = averages(own, [name for name in own if every[name].trained])
    spots = {name: spot for name, spot in weights.names(config, task).items() if name in own}
    tensors: dict[str, Floats] = {}
    for array in jax.tree.leaves(state) if place.world == 1 else ():
        array.copy_to_host_async()
    for mark, tree in (("", state.weights), ("m.", state.m), ("v.", state.v)):
        copies = _copies(tree, {spot.path for spot in spots.values()}, place)
        tensors |= {mark + name: weights.cut(copies[spot.path], spot) for name, spot in spots.items()}
    progress = Progress(*(place.whole(one).item() for one in state[3:]))
    return Snapshot(tensors, (own, kept), progress, place.rank, place.world)


def _copies(tree: nnx.State, wanted: set[weights.Path], place: Place) -> dict[weights.Path, Floats]:
    """The arrays that are wanted; the others are gathered for the processes that want them."""
    copies = ((path, place.whole(one[...])) for path, one in nnx.to_flat_state(tree))
    return {path: copy for path, copy in copies if path in wanted}
