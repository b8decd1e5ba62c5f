"""`[train.submit]`: what the job of a training asks for."""

from __future__ import annotations

from jprep.engine.schedulers.job import Resources


class SubmitConfig(Resources, frozen=True, kw_only=True):
    """`[train.submit]`: the job of `jprep train --executor slurm`, and of the training of `jprep run --executor slurm`.

    Attributes:
        nodes: number of nodes.
        min_nodes: the fewest nodes with which the run starts, after a requeue too; 0 is `nodes`.
        warn: seconds before the time limit at which the run saves a checkpoint and is requeued.
    """

    nodes: int = 1
    min_nodes: int = 0
    warn: int = 300
