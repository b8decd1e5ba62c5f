"""Checkpoint files: fairseq's weights and AdamW's averages under transformers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jprep.io.safetensors_file import Floats
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import (
    AVERAGES,
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    write_from_first,
    write_progress,
)
from jprep_fairseq_xla.models.fairseq_models import FairseqModel
from jprep_fairseq_xla.models.weights import tensor_locations, to_fairseq_weights, to_transformers_tensor
from jprep_torch.worker.update_rules.xla_adamw import M, V

_STATE_KEYS = dict(zip(AVERAGES, (M, V), strict=True))
"""Name of an average in checkpoints → its key in the optimizer's state."""


def save(
    folder: Path, job: Job, built: FairseqModel, weights: Mapping[str, Tensor], trainer: Any, *, first: bool
) -> None:
    """Write a checkpoint's files.

    Args:
        folder: where to.
        job: the job.
        built: the model.
        weights: fairseq's weights by name.
        trainer: fairseq's trainer.
        first: whether this is the first process, which writes.
    """
    locations = tensor_locations(job.model, job.train.objective)

    def weight(name: str) -> Floats:
        return _to_numpy(weights[name])

    def average_part(mark: str, name: str) -> Floats:
        return _to_numpy(trainer.optimizer.optimizer.averages(weights[name])[_STATE_KEYS[mark]])

    def average(name: str) -> list[Floats]:
        mark, _, own = name.partition(".")
        return [to_transformers_tensor(locations[own], partial(average_part, mark))]

    shapes = {name: to_transformers_tensor(where, weight).shape for name, where in sorted(locations.items())}
    trained = [name for name in shapes if set(locations[name].names) <= set(built.trained)]
    write_from_first(
        folder, WEIGHTS, shapes, lambda name: [to_transformers_tensor(locations[name], weight)], first=first
    )
    write_from_first(folder, OPTIMIZER, average_shapes(shapes, trained), average, first=first)
    if first:
        write_progress(folder, TrainProgress(trainer.get_num_updates()))


def restore(saved: CheckpointReader, job: Job, built: FairseqModel, weights: Mapping[str, Any], trainer: Any) -> None:
    """Load AdamW's averages and the number of updates from a checkpoint; the weights are loaded already.

    Args:
        saved: the checkpoint.
        job: the job.
        built: the model.
        weights: fairseq's weights by name.
        trainer: fairseq's trainer.
    """
    adam = trainer.optimizer.optimizer
    adam.updates = saved.progress.updates
    for mark, key in _STATE_KEYS.items():
        for name, array in to_fairseq_weights(job.model, job.train.objective, _average_reader(saved, mark)).items():
            if name in built.trained:
                adam.averages(weights[name])[key].copy_(torch.from_numpy(array))
    trainer.set_num_updates(saved.progress.updates)


def _average_reader(saved: CheckpointReader, mark: str) -> Callable[[str], Floats]:
    """Return a function that reads an average by name: zeros for weights that are not trained."""

    def read(name: str) -> Floats:
        found = saved.averages.get(f"{mark}.{name}")
        return np.zeros_like(saved.weights[name]) if found is None else found

    return read


def _to_numpy(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().float().cpu().numpy()
    return array
