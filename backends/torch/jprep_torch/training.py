"""The worker's page: a session's batches become updates, figures and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from jprep.dataset.counter_bits import key
from jprep.dataset.labelled import LabelledBatch
from jprep.dataset.sampler import Batch
from jprep.train.metrics import Metrics
from jprep.train.rundir import INIT
from jprep.train.schedule import learning_rate
from jprep.train.worker import Session
from jprep_torch.backend import Options
from jprep_torch.devices import Place
from jprep_torch.feeding import labels_in, micro_batches
from jprep_torch.heads import Rows
from jprep_torch.spreading import Spread, compiled, recomputed
from jprep_torch.state import WEIGHTS, restore, save
from jprep_torch.update import Scale, adamw, global_norm, rescale


class Updated(NamedTuple):
    """What a step says of itself: this process's part of the loss before the update, and the gradient's norm."""

    loss: Tensor
    norm: float


class Trainer:
    """Trains a job on this process's device.

    Args:
        session: the session.
        run: the run directory.
        place: this process's.
        rows: rows that go through the model at a time.
        shard: whether the model is divided among the processes.
    """

    def __init__(self, session: Session, run: Path, place: Place, rows: int, *, shard: bool) -> None:
        self._session, self._run, self._place, self._rows, self._job = session, run, place, rows, session.job
        self._options = msgspec.convert(session.job.options, Options)
        weights = session.resume / WEIGHTS if session.resume else run / INIT
        self._spread = Spread(self._job, weights, place, shard=shard)
        self._optimizer = adamw(self._spread.weights, self._job.train.optimizer)
        self._scale, self._updates = Scale(self._job.train.precision), 0
        if session.resume:
            self._updates = restore(session.resume, self._spread, self._optimizer, self._scale)
        if self._options.recompute:
            recomputed(self._spread.trainee.model)
        if self._options.compile:
            compiled(self._spread.trainee)

    def train(self) -> None:
        """Take the session through its batches."""
        session, clock = self._session, Clock()
        for step, batch in session.batches():
            updated = self._step(step, batch)
            clock.tokens += int(batch.lengths.sum()) * self._place.world
            due = session.due(step)
            if due.log:
                loss = float(self._place.total(updated.loss))
                more = {"scale": self._scale.factor} if self._job.train.precision == "fp16" else {}
                session.log(step, loss=loss, lr=self._rate(step), norm=updated.norm, **clock.pace(), **more)
            if due.validate:
                self._validate(step)
            if due.checkpoint:
                with session.checkpoint(step) as folder:
                    save(folder, self._spread, self._optimizer, self._scale, self._updates, self._place.rank)
            if due.validate or due.checkpoint:  # neither is training
                clock.restart()

    def _step(self, step: int, batch: Batch | LabelledBatch) -> Updated:
        """One update, or none where fp16's scale was too large."""
        self._spread.trainee.train()
        torch.manual_seed(int(key(self._job.train.seed, "dropout", step - 1, self._place.rank)[0]))
        labels = int(self._place.total(torch.tensor(labels_in(batch), device=self._place.device)))
        loss = self._gradient(batch, labels)
        weights = self._spread.weights.values()
        norm = global_norm(weights)
        if self._scale.passes(norm):
            self._session.check(step, norm, "gradient's norm")
            norm = rescale(weights, norm, self._job.train.optimizer.clip, self._scale.factor)
            for group in self._optimizer.param_groups:
                group["lr"] = self._rate(step)
            self._optimizer.step()
            self._updates += 1
            self._scale.after_update()
        self._optimizer.zero_grad()
        return Updated(loss / max(labels, 1), norm)

    def _gradient(self, batch: Batch | LabelledBatch, labels: int) -> Tensor:
        """Sum up the gradient of the global batch's loss; this process's part of the loss, not yet divided."""
        loss = torch.zeros((), device=self._place.device)
        # Processes' gradients are averaged where they meet, and docs/training.md wants their sum.
        factor = self._scale.factor * self._place.world / max(labels, 1)
        parts = list(self._parts(batch))
        for number, rows in enumerate(parts, 1):
            with self._spread.holding_back(number < len(parts)):
                with self._place.autocast(self._job.train.precision):
                    part, _ = self._spread(rows)
                (part * factor).backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        return loss

    @torch.no_grad()
    def _validate(self, step: int) -> None:
        self._spread.trainee.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self._place.device)
        metrics = Metrics(self._job, self._place.world)
        for batch in self._session.validation():
            outputs = []
            for rows in self._parts(batch):
                with self._place.autocast(self._job.train.precision):
                    loss, found = self._spread.trainee(rows)
                sums[0] += loss
                outputs.append(found.float().cpu().numpy())
            sums[1] += labels_in(batch)
            if isinstance(batch, LabelledBatch):
                metrics.add(np.concatenate(outputs), batch.labels)
        total, count = self._place.total(sums).tolist()
        loss = total / max(count, 1)
        self._session.check(step, loss)  # figures are of numbers
        figures = metrics.figures(self._place.gathered(metrics.part)) if self._job.train.data else {}
        self._session.validated(step, loss, **figures)

    def _parts(self, batch: Batch | LabelledBatch) -> Iterator[Rows]:
        """A batch in micro-batches: as many on each process, for a divided model has them speak in each."""
        types = self._job.model.get("type_vocab_size", 0) > 1
        rows_each = self._job.train.batch // self._place.world
        return micro_batches(batch, rows_each, self._rows, self._place.device, types=types)

    def _rate(self, step: int) -> float:
        section = self._job.train
        return learning_rate(step - 1, self._job.steps, section.optimizer.lr, section.schedule)


class Clock:
    """Counts tokens and seconds between two lines of figures."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin to count."""
        self.tokens, self._since = 0, time.monotonic()

    def pace(self) -> dict[str, float]:
        """Tokens a second since the last time, without padding (of other processes as many as of this one)."""
        found = self.tokens / max(time.monotonic() - self._since, 1e-9)
        self.restart()
        return {"tokens_per_second": found}
