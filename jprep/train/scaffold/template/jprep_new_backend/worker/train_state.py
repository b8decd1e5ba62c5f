"""The model and its optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.train.job.config import Job
from jprep_new_backend.models.language_model import LanguageModel
from jprep_new_backend.models.loss import token_loss
from jprep_new_backend.worker import checkpoint
from jprep_new_backend.worker.data import ModelInputs


class StepResult(NamedTuple):
    """Figures of a step.

    Attributes:
        loss: mean loss of the batch's labels, before the update.
        norm: norm of the gradient, before clipping.
    """

    loss: float
    norm: float


class TrainState:
    """A job's model and optimizer.

    Args:
        job: the job.
        initial: the file of the initial weights.
        resume: the checkpoint to resume from; None to start with the initial weights.
    """

    def __init__(self, job: Job, initial: Path, resume: Path | None) -> None:
        self._job = job
        loaded = checkpoint.restore(job, resume) if resume else checkpoint.initialize(job, initial)
        self.weights, self._optimizer = loaded
        self._model = LanguageModel(job.model, self.weights)

    def loss(self, inputs: ModelInputs) -> float:
        """Return the sum of the losses of some rows."""
        logits, _, _ = self._model.forward(inputs.ids)
        return token_loss(logits, inputs.labels)[0]

    def update(self, parts: Iterable[ModelInputs], labels: int, rate: float) -> StepResult:
        """Take a step.

        Args:
            parts: the batch in micro-batches, over which gradients are accumulated.
            labels: number of labels of the whole batch.
            rate: the learning rate.
        """
        total, gradients = 0.0, dict[str, np.ndarray]()
        for inputs in parts:
            logits, activations, hidden = self._model.forward(inputs.ids)
            loss, gradient = token_loss(logits, inputs.labels)
            total += loss
            for name, part in self._model.backward(inputs.ids, activations, hidden, gradient / max(labels, 1)).items():
                gradients[name] = gradients[name] + part if name in gradients else part
        norm = self._optimizer.update(self.weights, gradients, rate)
        return StepResult(total / max(labels, 1), norm)

    def save(self, folder: Path) -> None:
        """Write a checkpoint's files."""
        checkpoint.save(folder, self._job, self.weights, self._optimizer)
