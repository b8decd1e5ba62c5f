"""A checkpoint's content, copied from the devices at once and written while training continues."""

from __future__ import annotations

from jprep.train.run.checkpoint_files import AVERAGES, CheckpointPart, TrainProgress
from jprep_keras.worker.optimizer import StateArrays


def snapshot_of(state: StateArrays) -> CheckpointPart:
    """Return what a checkpoint has of weights, AdamW's averages and progress.

    Args:
        state: these as numpy arrays, by transformers' names.
    """
    weights = dict(sorted(state.weights.items()))
    averages = {f"{mark}.{name}": array for mark in AVERAGES for name, array in sorted(getattr(state, mark).items())}
    shapes = tuple({name: array.shape for name, array in tensors.items()} for tensors in (weights, averages))
    progress = TrainProgress(*(number.item() for number in state[3:]))
    return CheckpointPart(weights, averages, (shapes[0], shapes[1]), progress)
