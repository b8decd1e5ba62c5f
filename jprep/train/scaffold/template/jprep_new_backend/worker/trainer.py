"""Train: a session's batches become updates, logged figures and checkpoints."""

from __future__ import annotations

import numpy as np

from jprep.train.worker.session import Session
from jprep_new_backend.worker.data import count_labels, micro_batches
from jprep_new_backend.worker.train_state import TrainState


class Trainer:
    """Train a job.

    Args:
        session: the session.
        state: the model and its optimizer.
        micro_batch: rows that go through the model at a time.
    """

    def __init__(self, session: Session, state: TrainState, micro_batch: int) -> None:
        self._session, self._state, self._micro_batch = session, state, micro_batch

    def train(self) -> None:
        """Train until the session has no more batches; only validate if it says so."""
        if self._session.evaluated_split:
            self._validate(self._session.start)
            return
        for step, batch in self._session.batches():
            with np.errstate(over="ignore", invalid="ignore"):  # the session checks that the loss is finite
                parts = micro_batches(batch, self._micro_batch)
                result = self._state.update(parts, count_labels(batch), self._session.learning_rate(step))
            due = self._session.due(step)
            if due.log:
                self._session.log(step, loss=result.loss, lr=self._session.learning_rate(step), norm=result.norm)
            if due.validate:
                self._validate(step)
            if due.checkpoint:
                with self._session.checkpoint(step) as folder:
                    self._state.save(folder)

    def _validate(self, step: int) -> None:
        loss, labels = 0.0, 0
        for batch in self._session.validation():
            parts = micro_batches(batch, self._micro_batch)
            loss += sum((self._state.loss(inputs) for inputs in parts), 0.0)
            labels += count_labels(batch)
        self._session.validated(step, loss / max(labels, 1))
