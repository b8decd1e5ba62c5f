"""Train: a session's batches become updates, logged figures and checkpoints."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from jax import Array

from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.worker.next_sentence import NEXT_SENTENCE_LOSS
from jprep.train.worker.rtd_figures import SUMS, rtd_figures
from jprep.train.worker.session import Session
from jprep.train.worker.validation_metrics import row_labels, validation_metrics
from jprep_flax.worker.data import BatchLoader, DeviceBatch
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.profiling import JaxTracer
from jprep_flax.worker.throughput import ThroughputMeter
from jprep_flax.worker.train_state import StepResult, TrainState


class Trainer:
    """Train a job on the mesh. The host is a step ahead of the devices, and reads figures only when they are logged.

    Args:
        session: the session.
        context: the devices.
        state: the model and its optimizer.
        loader: loads batches onto the devices.
        hooks: the job's hooks.
    """

    def __init__(
        self,
        session: Session,
        context: DistributedContext,
        state: TrainState,
        loader: BatchLoader,
        hooks: LoadedHooks = NO_HOOKS,
    ) -> None:
        self._hooks = hooks
        self._session, self._context, self._state, self._loader = session, context, state, loader
        self._job, self._profiler = session.job, session.profiler
        self._profiler.tracer = JaxTracer(lambda: state.arrays, state.program)
        self._pending: list[tuple[int, StepResult]] = []

    def train(self) -> None:
        """Train until the session has no more batches; only validate if it says so."""
        session = self._session
        if session.evaluated_split:
            self._validate(session.start)
            return
        with ThroughputMeter(self._job.samples / self._job.train.batch) as meter:
            for step, batch in session.batches_ahead(self._loader.training):
                self._dispatch(step, batch, meter)
                with self._profiler.phase("waiting"):
                    due = session.due(step)
                if due.log:
                    self._log(step, meter)
                if due.validate:
                    self._validate(step)
                if due.checkpoint:
                    session.save(step, self._state.snapshot().write)
                if due.validate or due.checkpoint:  # neither counts as training time
                    meter.restart()

    def _dispatch(self, step: int, batch: DeviceBatch, meter: ThroughputMeter) -> None:
        """Dispatch a step to the devices."""
        compiled, start = self._state.compiled, time.monotonic()
        with self._profiler.phase("device"):
            result = self._state.update(step, batch.inputs, self._session.learning_rate(step))
        if self._state.compiled > compiled:
            meter.exclude_compilation(time.monotonic() - start)
        self._pending.append((step, result))
        meter.step_started(result.loss, batch.tokens * self._context.world)

    def _log(self, step: int, meter: ThroughputMeter) -> None:
        """Check the figures of all steps since the last call, and log those of this step."""
        for number, result in self._pending:
            if result.taken:
                self._session.check(number, float(result.loss))
                self._session.check(number, float(result.norm), "gradient's norm")
        last = self._pending[-1][1]
        self._pending.clear()
        scale = {"scale": float(last.scale)} if self._job.train.precision == "fp16" else {}
        figures = {"lr": self._session.learning_rate(step), "norm": float(last.norm), **meter.figures(), **scale}
        if self._job.train.task == "rtd":
            figures |= self._rtd_figures(last.sums)
        self._session.log(step, **figures | {"loss": float(last.loss)})

    def _rtd_figures(self, sums: npt.ArrayLike) -> dict[str, float]:
        return rtd_figures(np.asarray(sums, np.float64).tolist(), self._job.train.rtd.discriminator_weight)

    def _validate_rtd(self, step: int) -> None:
        sums = np.zeros(len(SUMS))
        for batch in self._session.validation():
            sums += np.asarray(self._state.loss(self._loader(batch).inputs)[1], np.float64).sum(0)
        self._session.validated(step, **self._rtd_figures(sums))

    def _validate(self, step: int) -> None:
        if self._job.train.task == "rtd":
            self._validate_rtd(step)
            return
        metrics, loss = validation_metrics(self._job, self._context.world, self._hooks.metrics), 0.0
        labels, counted = 0, 0.0  # of this process; of a loss hook, on all devices
        for batch in self._session.validation():
            loaded = self._loader(batch)
            total, outputs, count = self._state.loss(loaded.inputs)
            loss, labels = loss + float(total), labels + loaded.labels
            counted += 0.0 if count is None else float(count)
            if metrics:
                expected = row_labels(batch)
                metrics.add(self._local_outputs(outputs, len(expected)), expected)
        all_labels = self._context.all_gather(np.array([[labels]], np.float64)).sum()
        loss /= (counted or 1) if self._hooks.loss else max(all_labels, 1)
        self._session.check(step, loss)  # metrics are defined for finite outputs only
        figures = metrics.figures(self._context.all_gather(metrics.part)) if metrics else {}
        self._session.validated(step, loss + figures.get(NEXT_SENTENCE_LOSS, 0.0), **figures)

    def _local_outputs(self, outputs: Array, rows: int) -> npt.NDArray[np.float32]:
        """Return the outputs of this process's rows, without those that only fill the shape."""
        local = self._context.local_rows(outputs)
        return local.reshape(-1, local.shape[-1])[:rows]
