"""The training loop: the session's batches become updates, figures and checkpoints."""

from __future__ import annotations

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
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.run.events import DEVICE_MEMORY
from jprep.train.worker.next_sentence import NEXT_SENTENCE_LOSS
from jprep.train.worker.rtd_figures import SUMS, rtd_figures
from jprep.train.worker.session import Session
from jprep.train.worker.validation_metrics import AnyMetrics, row_labels, validation_metrics
from jprep_torch.models.model_with_loss import ModelInputs, ModelResult, ModelWithLoss
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.data import count_labels, count_tokens, micro_batches
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.loss_divisor import Number, or_one
from jprep_torch.worker.profiling import XLA_NOTE, make_tracer
from jprep_torch.worker.throughput import ThroughputMeter


class StepResult(NamedTuple):
    """The figures of a training step.

    Attributes:
        loss: this process's part of the loss before the update.
        norm: norm of the gradient of the global batch, before clipping; on the device if nothing has read it yet.
        scale: loss scale of the next step; 1 except in fp16.
        sums: for `rtd`, this process's part of `jprep.train.worker.rtd_figures.SUMS`; else zeros or None.
    """

    loss: Tensor
    norm: float | Tensor
    scale: float
    sums: Tensor | None = None


class PreparedBatch(NamedTuple):
    """This process's rows of a batch.

    Attributes:
        labels: number of labels, or the sum of their weights.
        tokens: number of tokens, without padding.
        inputs: micro-batches on the device.
    """

    labels: int | float
    tokens: int
    inputs: list[ModelInputs]


CheckpointWriter = Callable[[Path], None]
"""Writes a checkpoint into a folder."""


class AnyTrainState(Protocol):
    """The interface of a model and its optimizer that `Trainer` needs."""

    @property
    def model(self) -> ModelWithLoss:
        """The model and its loss."""

    def loss(self, inputs: ModelInputs) -> ModelResult:
        """Return the summed loss of some rows in the job's precision, their outputs, and the count of a loss hook.

        Each process must call it the same number of times.
        """

    def update(
        self, micro_batches: Sequence[ModelInputs], labels: Number, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """Update the weights once.

        Args:
            micro_batches: this process's rows.
            labels: number of labels of the global batch.
            rate: learning rate.
            check: called with the norm of the gradient if it is read; raises if it is not finite. A norm that stays on
                the device is checked later.
        """

    def save(self, folder: Path) -> None:
        """Write a checkpoint as described in `jprep.train.run.checkpoint_files`. Each process takes part."""

    def checkpoint_writer(self) -> CheckpointWriter | None:
        """Return what writes a checkpoint in another thread, while training continues; None if only `save` can."""


class Trainer:
    """Trains a job on this process's device.

    A step reads nothing from the device, except with fp16 and XLA, and what DeepSpeed itself reads in stages 1 to 3:
    losses, numbers of labels and norms stay there until a step is logged. Batches are made and moved to the device
    ahead of time, in a thread.

    Args:
        session: the session.
        context: this process's device and rank.
        state: the model and its optimizer.
        micro_batch: rows that pass through the model at a time.
        hooks: the job's hooks.
    """

    def __init__(
        self,
        session: Session,
        context: DistributedContext,
        state: AnyTrainState,
        micro_batch: int,
        hooks: LoadedHooks = NO_HOOKS,
    ) -> None:
        self._hooks = hooks
        self._session, self._context, self._state, self._micro_batch = session, context, state, micro_batch
        self._job, self._profiler = session.job, session.profiler
        self._profiler.tracer = make_tracer(context.kind)
        self._profiler.notes += [XLA_NOTE] * (context.kind == "xla")
        self._unchecked: list[tuple[int, Tensor]] = []

    def train(self) -> None:
        """Train on all batches of the session; only validate if it says so."""
        session, meter = self._session, ThroughputMeter(self._context.compile_seconds)
        if session.evaluated_split:
            self._validate(session.start)
            return
        for step, batch in self._batches():
            result = self._step(step, batch)
            meter.tokens += batch.tokens * self._context.world
            with self._profiler.phase("waiting"):
                due = session.due(step)
            if due.log or due.validate or due.checkpoint:
                self._check_norms()
            if due.log:
                self._log(step, result, meter)
            if due.validate:
                self._validate(step)
            if due.checkpoint:
                self._save(step)
            if due.validate or due.checkpoint:  # not part of the throughput
                meter.restart()

    def _save(self, step: int) -> None:
        """Save a checkpoint, while training continues if the state can be copied."""
        self._session.settle()  # so that memory holds one copy at a time
        if write := self._state.checkpoint_writer():
            self._session.save(step, write)
            return
        with self._session.checkpoint(step) as folder:
            self._state.save(folder)

    def _batches(self) -> Iterator[tuple[int, PreparedBatch]]:
        """Yield each step and its batch. With XLA only one thread can use the device."""
        if self._context.kind in XLA_DEVICES:
            return ((step, self._prepare(batch)) for step, batch in self._session.batches())
        return self._session.batches_ahead(self._prepare)

    def _prepare(self, batch: Batch | LabelledBatch) -> PreparedBatch:
        labels = count_labels(batch, self._job.class_weights)
        return PreparedBatch(labels, count_tokens(batch), list(self._inputs(batch, training=True)))

    def _check_norms(self) -> None:
        """Check the norms of all steps since the last call."""
        norms = torch.stack([norm for _, norm in self._unchecked]).tolist() if self._unchecked else []
        for (step, _), norm in zip(self._unchecked, norms, strict=True):
            self._session.check(step, norm, name="gradient's norm")
        self._unchecked.clear()

    def _log(self, step: int, result: StepResult, meter: ThroughputMeter) -> None:
        loss = float(self._context.sum_over_processes(result.loss))
        figures = {"scale": result.scale} if self._job.train.precision == "fp16" else {}
        figures |= meter.figures()
        if self._context.kind == "cuda":
            figures |= {DEVICE_MEMORY: float(torch.cuda.max_memory_allocated(self._context.device))}
        if self._job.train.task == "rtd" and result.sums is not None:
            figures |= self._rtd_figures(result.sums)
            del figures["loss"]
        self._session.log(step, loss=loss, lr=self._session.learning_rate(step), norm=float(result.norm), **figures)

    def _step(self, step: int, batch: PreparedBatch) -> StepResult:
        self._state.model.train()
        self._context.seed(int(key(self._job.train.seed, "dropout", step - 1, self._context.rank)[0]))
        with self._profiler.phase("waiting"):
            labels, tokens = self._totals(batch)
        inputs = [self._with_shares(each, labels, tokens) for each in batch.inputs]
        check = partial(self._session.check, step, name="gradient's norm")
        result = self._state.update(inputs, labels, self._session.learning_rate(step), check)
        if isinstance(result.norm, Tensor):
            self._unchecked.append((step, result.norm))
        return result

    def _totals(self, batch: PreparedBatch) -> tuple[Number, Number]:
        """Return the numbers of labels and tokens of the global batch."""
        if self._context.world == 1:
            return batch.labels, batch.tokens
        own = self._context.put(torch.tensor([batch.labels, batch.tokens]))
        labels, tokens = self._context.sum_over_processes(own).unbind()
        return (int(labels), int(tokens)) if self._context.kind in XLA_DEVICES else (labels, tokens)

    def _with_shares(self, inputs: ModelInputs, labels: Number, tokens: Number) -> ModelInputs:
        """Multiply losses that are divided by a number other than that of labels, by which all sums are divided."""
        labels = or_one(labels)
        if inputs.pair_weights is not None:
            inputs = inputs._replace(pair_weights=inputs.pair_weights * (labels / self._job.train.batch))
        if inputs.rtd is not None:
            factor = inputs.rtd.factor * (labels / or_one(tokens))
            inputs = inputs._replace(rtd=inputs.rtd._replace(factor=factor))
        if inputs.router_factor is not None:
            inputs = inputs._replace(router_factor=inputs.router_factor * (labels / or_one(tokens)))
        return inputs

    def _rtd_figures(self, sums: Tensor) -> dict[str, float]:
        """Return the figures of replaced-token detection from this process's sums."""
        whole = self._context.sum_over_processes(sums.clone()).tolist()
        return rtd_figures(whole, self._job.train.rtd.discriminator_weight)

    @torch.no_grad()
    def _validate_rtd(self, step: int) -> None:
        self._state.model.eval()
        sums = torch.zeros(len(SUMS), dtype=torch.float64)
        for batch in self._session.validation():
            for inputs in self._inputs(batch):
                sums += self._state.loss(inputs).outputs.double().cpu()
        self._session.validated(step, **self._rtd_figures(sums.to(self._context.device)))

    @torch.no_grad()
    def _validate(self, step: int) -> None:
        if self._job.train.task == "rtd":
            self._validate_rtd(step)
            return
        self._state.model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self._context.device)  # loss, labels
        metrics = validation_metrics(self._job, self._context.world, self._hooks.metrics)
        for batch in self._session.validation():
            self._add_losses(batch, sums, metrics)
        total, count = self._context.sum_over_processes(sums).tolist()
        loss = total / (count or 1)  # a hook's count can be below 1
        self._session.check(step, loss)  # before metrics, which need finite outputs
        figures = metrics.figures(self._context.gather(metrics.part)) if metrics else {}
        self._session.validated(step, loss + figures.get(NEXT_SENTENCE_LOSS, 0.0), **figures)

    def _add_losses(self, batch: Batch | LabelledBatch, sums: Tensor, metrics: AnyMetrics | None) -> None:
        """Add the losses and the number of labels of a batch to `sums`, and its outputs to the metrics."""
        outputs = []
        for inputs in self._inputs(batch):
            loss, found, count = self._state.loss(inputs)
            sums[0] += loss
            sums[1] += 0 if count is None else count
            outputs.append(found.float().cpu().numpy())
        sums[1] += count_labels(batch) if self._hooks.loss is None else 0
        if metrics:
            labels = row_labels(batch)
            metrics.add(np.concatenate(outputs)[: len(labels)], labels)

    def _inputs(self, batch: Batch | LabelledBatch, *, training: bool = False) -> Iterator[ModelInputs]:
        """Yield a batch in micro-batches: the same number on each process, as a sharded model needs it."""
        types = self._job.model.get("type_vocab_size", 0) > 1
        rows = self._job.train.batch // self._context.world
        factors = {"discriminator_factor": self._job.train.rtd.discriminator_weight}
        factors |= {"pair_weight": 1.0} if training else {}
        if training and self._job.train.objective == "clm" and "router_aux_loss_coef" in self._job.model:
            factors["router_factor"] = self._job.model["router_aux_loss_coef"]
        return micro_batches(batch, rows, self._micro_batch, self._context.device, types=types, **factors)
