"""Checkpoint files: the same for all backends, so that a run can resume on another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jprep.io.safetensors_file import TensorFiles
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.run.checkpoint_files import (
    AVERAGES,
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    write_part,
    write_progress,
)
from jprep_new_backend.worker.optimizer import AdamW, Arrays


def save(folder: Path, job: Job, weights: Arrays, optimizer: AdamW) -> None:
    """Write a checkpoint's files.

    Raises:
        OSError: the disk is full or not writable.
    """
    specs = parameters(job.model, job.train.task)
    shapes = {name: weights[name].shape for name in sorted(specs)}
    averages = dict(zip(AVERAGES, (optimizer.m, optimizer.v), strict=True))

    def average(name: str) -> list[np.ndarray]:
        mark, _, weight = name.partition(".")
        return [averages[mark][weight]]

    write_part(folder, WEIGHTS, shapes, lambda name: [weights[name]])
    write_part(folder, OPTIMIZER, average_shapes(shapes, _trained(job)), average)
    write_progress(folder, TrainProgress(optimizer.updates))


def restore(job: Job, folder: Path) -> tuple[Arrays, AdamW]:
    """Read the weights and the optimizer from a checkpoint."""
    saved = CheckpointReader(folder)
    weights = {name: np.array(saved.weights[name]) for name in saved.weights}
    m, v = ({name: np.array(saved.averages[f"{mark}.{name}"]) for name in _trained(job)} for mark in AVERAGES)
    return weights, AdamW(job.train.optimizer, m, v, saved.progress.updates)


def initialize(job: Job, initial: Path) -> tuple[Arrays, AdamW]:
    """Read the run's initial weights, and create an optimizer for them."""
    files = TensorFiles([initial])
    weights = {name: np.array(files[name]) for name in files}
    m, v = ({name: np.zeros_like(weights[name]) for name in _trained(job)} for _ in AVERAGES)
    return weights, AdamW(job.train.optimizer, m, v, 0)


def _trained(job: Job) -> list[str]:
    return sorted(name for name, spec in parameters(job.model, job.train.task).items() if spec.trained)
