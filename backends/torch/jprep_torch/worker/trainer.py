"""The worker's page: a session's batches become updates, figures and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.random.counter_bits import key
from jprep.train.job.schedule import learning_rate
from jprep.train.worker.metrics import Metrics
from jprep.train.worker.session import Session
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.worker.data import count_labels, micro_batches
from jprep_torch.worker.distributed import DistributedContext


class StepResult(NamedTuple):
    """What a step says of itself.

    Attributes:
        loss: this process's part of the loss before the update.
        norm: of the gradient of the global batch, before clipping.
        scale: of fp16's loss, for the next step; 1 in other precisions.
    """

    loss: Tensor
    norm: float
    scale: float


class AnyTrainState(Protocol):
    """A model and what changes it, wherever they lie."""

    @property
    def trainee(self) -> ModelWithLoss:
        """The model and its loss."""

    def loss(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of some rows' losses in the job's precision, and their outputs: see `ModelWithLoss`.

        Each process calls it as often as the others.
        """

    def update(
        self, parts: Sequence[ModelInputs], labels: int, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """Take one step.

        Args:
            parts: this process's rows, in micro-batches.
            labels: how many labels the global batch has.
            rate: the learning rate.
            check: is given the gradient's norm, and raises where it is no number.
        """

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder with what `jprep.train.run.checkpoint_files` says. Each process takes part."""


class Trainer:
    """Trains a job on this process's device.

    Args:
        session: the session.
        place: this process's.
        updating: the model, and how it is updated.
        rows: rows that go through the model at a time.
    """

    def __init__(self, session: Session, place: DistributedContext, updating: AnyTrainState, rows: int) -> None:
        self._session, self._place, self._updating, self._rows = session, place, updating, rows
        self._job = session.job

    def train(self) -> None:
        """Take the session through its batches."""
        session, clock = self._session, ThroughputMeter(self._place.compiled)
        for step, batch in session.batches():
            updated = self._step(step, batch)
            clock.tokens += int(batch.lengths.sum()) * self._place.world
            due = session.due(step)
            if due.log:
                loss = float(self._place.total(updated.loss))
                more = {"scale": updated.scale} if self._job.train.precision == "fp16" else {}
                session.log(step, loss=loss, lr=self._rate(step), norm=updated.norm, **clock.figures(), **more)
            if due.validate:
                self._validate(step)
            if due.checkpoint:
                with session.checkpoint(step) as folder:
                    self._updating.save(folder)
            if due.validate or due.checkpoint:  # neither is training
                clock.restart()

    def _step(self, step: int, batch: Batch | LabelledBatch) -> StepResult:
        self._updating.trainee.train()
        self._place.seed(int(key(self._job.train.seed, "dropout", step - 1, self._place.rank)[0]))
        labels = int(self._place.total(torch.tensor(count_labels(batch), device=self._place.device)))
        check = partial(self._session.check, step, name="gradient's norm")
        return self._updating.update(list(self._parts(batch)), labels, self._rate(step), check)

    @torch.no_grad()
    def _validate(self, step: int) -> None:
        self._updating.trainee.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self._place.device)
        metrics = Metrics(self._job, self._place.world)
        for batch in self._session.validation():
            outputs = []
            for rows in self._parts(batch):
                loss, found = self._updating.loss(rows)
                sums[0] += loss
                outputs.append(found.float().cpu().numpy())
            sums[1] += count_labels(batch)
            if isinstance(batch, LabelledBatch):
                metrics.add(np.concatenate(outputs), batch.labels)
        total, count = self._place.total(sums).tolist()
        loss = total / max(count, 1)
        self._session.check(step, loss)  # figures are of numbers
        figures = metrics.figures(self._place.gathered(metrics.part)) if self._job.train.data else {}
        self._session.validated(step, loss, **figures)

    def _parts(self, batch: Batch | LabelledBatch) -> Iterator[ModelInputs]:
        """A batch in micro-batches: as many on each process, for a divided model has them speak in each."""
        types = self._job.model.get("type_vocab_size", 0) > 1
        rows_each = self._job.train.batch // self._place.world
        return micro_batches(batch, rows_each, self._rows, self._place.device, types=types)

    def _rate(self, step: int) -> float:
        section = self._job.train
        return learning_rate(step - 1, self._job.steps, section.optimizer.lr, section.schedule)


class ThroughputMeter:
    """Counts tokens and seconds between two lines of figures.

    Args:
        compiled: gives the seconds that XLA has compiled so far, in which nothing was trained.
    """

    def __init__(self, compiled: Callable[[], float]) -> None:
        self._compiled, self._told = compiled, compiled()
        self.restart()

    def restart(self) -> None:
        """Begin to count."""
        self.tokens, self._since, self._before = 0, time.monotonic(), self._compiled()

    def figures(self) -> dict[str, float]:
        """Tokens a second since the last time, without padding (of other processes as many as of this one); and the
        seconds that XLA compiled, where it did.
        """
        compiled = self._compiled()
        seconds = time.monotonic() - self._since - (compiled - self._before)
        found = {"tokens_per_second": self.tokens / max(seconds, 1e-9)}
        found |= {"compiling": compiled - self._told} if compiled > self._told else {}
        self._told = compiled
        self.restart()
        return found
