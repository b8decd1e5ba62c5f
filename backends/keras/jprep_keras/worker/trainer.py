"""Train: a session's batches become updates, logged figures and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.worker.next_sentence import NEXT_SENTENCE_LOSS
from jprep.train.worker.session import Session
from jprep.train.worker.validation_metrics import row_labels, validation_metrics
from jprep_keras.worker.data import BatchLoader, LoadedBatch
from jprep_keras.worker.optimizer import StepResult
from jprep_keras.worker.profiling import NOTE, create_tracer
from jprep_keras.worker.throughput import ThroughputMeter
from jprep_keras.worker.train_state import TrainState


class Trainer:
    """Train a job. Figures are read from the devices only when they are logged.

    Args:
        session: the session.
        state: the model and its optimizer.
        loader: makes model inputs of batches.
        records: batches to train on in place of the session's.
        hooks: the job's hooks.
    """

    def __init__(
        self,
        session: Session,
        state: TrainState,
        loader: BatchLoader,
        records: Iterator[Batch] | None = None,
        hooks: LoadedHooks = NO_HOOKS,
    ) -> None:
        self._session, self._state, self._loader, self._job = session, state, loader, session.job
        self._records, self._hooks = records, hooks
        self._newest: StepResult | None = None
        self._pending: list[tuple[int, StepResult]] = []
        self._meter = ThroughputMeter()
        session.profiler.tracer = create_tracer(lambda: self._newest and self._newest.loss)
        session.profiler.notes.append(NOTE)

    def train(self) -> None:
        """Train until the session has no more batches; only validate if it says so."""
        session = self._session
        if session.evaluated_split:
            self._validate(session.start)
            return
        for step, batch in session.batches_ahead(self._load):
            self._update(step, batch)
            due = session.due(step)
            if due.log:
                self._log(step)
            if due.validate:
                self._validate(step)
            if due.checkpoint:
                session.save(step, self._state.snapshot().write)
            if due.validate or due.checkpoint:  # neither counts as training time
                self._meter.restart()

    def _load(self, batch: Batch | LabelledBatch) -> LoadedBatch:
        """Return the inputs of the next step; steps are asked for in order."""
        return self._loader(batch if self._records is None else next(self._records))

    def _update(self, step: int, batch: LoadedBatch) -> None:
        compiled, start = self._state.compiled, time.monotonic()
        with self._session.profiler.phase("device"):
            self._newest = self._state.update(step, batch, self._session.learning_rate(step))
        self._pending.append((step, self._newest))
        if self._state.compiled > compiled:
            self._meter.exclude_compilation(time.monotonic() - start)
        self._meter.count(batch.tokens)

    def _log(self, step: int) -> None:
        """Check the figures of all steps since the last call, and log those of this step."""
        for number, result in self._pending:
            if bool(result.taken):
                self._session.check(number, float(result.loss))
                self._session.check(number, float(result.norm), "gradient's norm")
        last = self._pending[-1][1]
        self._pending.clear()
        scale = {"scale": float(last.scale)} if self._job.train.precision == "fp16" else {}
        figures = {"lr": self._session.learning_rate(step), "norm": float(last.norm), **self._meter.figures(), **scale}
        self._session.log(step, loss=float(last.loss), **figures)

    def _validate(self, step: int) -> None:
        metrics, loss, labels, counted = validation_metrics(self._job, hooks=self._hooks.metrics), 0.0, 0, 0.0
        for batch in self._session.validation():
            loaded = self._loader(batch)
            total, outputs, count = self._state.loss(loaded)
            loss, labels, counted = loss + total, labels + loaded.labels, counted + count
            if metrics:
                metrics.add(outputs, row_labels(batch))
        loss /= (counted or 1) if self._hooks.loss else max(labels, 1)
        self._session.check(step, loss)  # metrics are defined for finite outputs only
        figures = metrics.figures() if metrics else {}
        self._session.validated(step, loss + figures.get(NEXT_SENTENCE_LOSS, 0.0), **figures)
