"""The worker's page: a session's batches become updates, figures and checkpoints."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from jax import Array

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.train.job.schedule import learning_rate
from jprep.train.worker.metrics import Metrics
from jprep.train.worker.session import Session
from jprep_flax.worker.data import BatchLoader, DeviceBatch
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.throughput import ThroughputMeter
from jprep_flax.worker.train_state import StepResult, TrainState


class Trainer:
    """Trains a job on the mesh. The host is a step ahead of the devices, and looks at figures only where they are due.

    Args:
        session: the session.
        place: the mesh.
        updater: the model.
        feeder: brings batches there.
    """

    def __init__(self, session: Session, place: DistributedContext, updater: TrainState, feeder: BatchLoader) -> None:
        self._session, self._place, self._updater, self._feeder = session, place, updater, feeder
        self._job = session.job
        self._pending: list[tuple[int, StepResult]] = []

    def train(self) -> None:
        """Take the session through its batches."""
        session = self._session
        with ThroughputMeter(self._job.samples / self._job.train.batch) as pace:
            for step, fed in session.batches_ahead(self._feeder):
                self._begin(step, fed, pace)
                due = session.due(step)
                if due.log:
                    self._log(step, pace)
                if due.validate:
                    self._validate(step)
                if due.checkpoint:
                    session.save(step, self._updater.snapshot().write)
                if due.validate or due.checkpoint:  # neither is training
                    pace.restart()

    def _begin(self, step: int, fed: DeviceBatch, pace: ThroughputMeter) -> None:
        """Give a step to the devices."""
        known, since = self._updater.compiled, time.monotonic()
        updated = self._updater.update(step, fed.rows, self._rate(step))
        if self._updater.compiled > known:
            pace.compiled(time.monotonic() - since)
        self._pending.append((step, updated))
        pace.begun(updated.loss, fed.tokens * self._place.world)

    def _log(self, step: int, pace: ThroughputMeter) -> None:
        """Look at all steps since the last time, and tell of this one."""
        for number, one in self._pending:
            if one.taken:
                self._session.check(number, float(one.loss))
                self._session.check(number, float(one.norm), "gradient's norm")
        last = self._pending[-1][1]
        self._pending.clear()
        more = {"scale": float(last.scale)} if self._job.train.precision == "fp16" else {}
        figures = {"lr": self._rate(step), "norm": float(last.norm), **pace.figures(), **more}
        self._session.log(step, loss=float(last.loss), **figures)

    def _validate(self, step: int) -> None:
        metrics, loss, labels = Metrics(self._job, self._place.world), 0.0, 0
        for batch in self._session.validation():
            fed = self._feeder(batch)
            total, outputs = self._updater.measure(fed.rows)
            loss, labels = loss + float(total), labels + fed.labels
            if isinstance(batch, LabelledBatch):
                metrics.add(self._own(outputs, batch), batch.labels)
        everyone = self._place.gathered(np.array([[labels]], np.float64)).sum()
        loss /= max(everyone, 1)
        self._session.check(step, loss)  # figures are of numbers
        figures = metrics.figures(self._place.gathered(metrics.part)) if self._job.train.data else {}
        self._session.validated(step, loss, **figures)

    def _own(self, outputs: Array, batch: LabelledBatch) -> npt.NDArray[np.float32]:
        """The outputs of this process's rows, without those that only filled the shape up."""
        found = self._place.own(outputs)
        return found.reshape(-1, found.shape[-1])[: len(batch.labels)]

    def _rate(self, step: int) -> float:
        section = self._job.train
        return learning_rate(step - 1, self._job.steps, section.optimizer.lr, section.schedule)
