"""A checkpoint's content, copied from the devices at once and written while training continues."""

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
    """The part of a checkpoint that one process writes.

    Attributes:
        tensors: weights by transformers' names, and AdamW's averages as `m.NAME` and `v.NAME`.
        shapes: shapes of the weights, and of the averages.
        progress: number of updates and the loss scale.
        rank: number of this process.
        world: number of processes.
    """

    tensors: dict[str, Floats]
    shapes: tuple[dict[str, Shape], dict[str, Shape]]
    progress: TrainProgress
    rank: int
    world: int

    def write(self, folder: Path) -> None:
        """Write the files of this process.

        Raises:
            OSError: the disk is full or not writable.
        """

        def blocks(name: str) -> Iterator[Floats]:
            yield self.tensors[name]

        for kind, shapes in zip((WEIGHTS, OPTIMIZER), self.shapes, strict=True):
            write_part(folder, kind, shapes, blocks, self.rank, self.world)
        if not self.rank:
            write_progress(folder, self.progress)


def snapshot(state: StateArrays, job: Job, context: DistributedContext) -> Snapshot:
    """Copy what this process writes. All processes have to call it, as sharded arrays are gathered."""
    config, task = job.model, job.train.task
    specs = parameters(config, task)
    shapes = {name: tensor.shape for name, tensor in sorted(specs.items())}
    own = tensors_of_part(shapes, context.rank, context.world)
    own_averages = average_shapes(own, [name for name in own if specs[name].trained])
    locations = {name: where for name, where in weights.tensor_locations(config, task).items() if name in own}
    tensors: dict[str, Floats] = {}
    for array in jax.tree.leaves(state) if context.world == 1 else ():
        array.copy_to_host_async()
    for prefix, tree in (("", state.weights), ("m.", state.m), ("v.", state.v)):
        copies = _gather(tree, {where.path for where in locations.values()}, context)
        for name, where in locations.items():
            tensors[prefix + name] = weights.extract_tensor(copies[where.path], where)
    progress = TrainProgress(*(context.gather(number).item() for number in state[3:]))
    return Snapshot(tensors, (own, own_averages), progress, context.rank, context.world)


def _gather(tree: nnx.State, wanted: set[weights.Path], context: DistributedContext) -> dict[weights.Path, Floats]:
    """Return copies of the wanted arrays; the others are gathered for the processes that write them."""
    copies = ((path, context.gather(one[...])) for path, one in nnx.to_flat_state(tree))
    return {path: copy for path, copy in copies if path in wanted}
