"""A job's weights and optimizer on an engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jprep.io.safetensors_file import Floats, TensorFiles
from jprep.random.counter_bits import bits, key
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.optimization.loss_scale import initial_loss_scale
from jprep.train.run.checkpoint_files import CheckpointPart, CheckpointReader, TrainProgress
from jprep_keras.engines.base import Engine, Seeds
from jprep_keras.models.model_with_loss import ModelWithLoss
from jprep_keras.planning.layout import Layout
from jprep_keras.worker.checkpoint import snapshot_of
from jprep_keras.worker.data import LoadedBatch
from jprep_keras.worker.optimizer import StateArrays, StepResult


class TrainState:
    """A job's weights and AdamW's averages, on an engine.

    Args:
        job: the job.
        initial_weights: file with the weights of step 0 (`Session.initial_weights`).
        resume: the checkpoint to resume from; None to start with the initial weights.
        engine: computes the steps.
        layout: the layout of the plan.
        hooks: the job's hooks.
    """

    def __init__(
        self,
        job: Job,
        initial_weights: Path,
        resume: Path | None,
        engine: Engine,
        layout: Layout,
        hooks: LoadedHooks = NO_HOOKS,
    ) -> None:
        self._job, self._engine, self._layout = job, engine, layout
        self._specs = parameters(job.model, job.train.objective)
        section, padded = job.train, job.train.model.padded(job.model["vocab_size"])
        self._model = ModelWithLoss(
            job.model, section.objective, section.precision, hooks, padded, z_loss=section.z_loss
        )
        saved = CheckpointReader(resume) if resume else None
        engine.load(self._model, self._restored(saved) if saved else self._initial(TensorFiles([initial_weights])))

    def update(self, step: int, batch: LoadedBatch, rate: float) -> StepResult:
        """Dispatch a step, and return its figures without waiting for them.

        Args:
            step: number of the step, from 1.
            batch: the global batch.
            rate: the learning rate.
        """
        labels = max(batch.labels, 1)
        factors = np.array([1 / labels, 1 / max(batch.rows, 1), labels], np.float32)
        return self._engine.update(batch.inputs, self._seeds(step), factors, rate)

    def loss(self, batch: LoadedBatch) -> tuple[float, Floats, float]:
        """Return the sum of a batch's losses without dropout, the outputs of its rows, and the count of a loss hook.

        The outputs are (rows, labels). The count is 0 without a hook.
        """
        total, outputs, count = self._engine.loss(batch.inputs)
        return total, outputs[: batch.rows], count

    def snapshot(self) -> CheckpointPart:
        """Copy all that a checkpoint holds to this process's memory."""
        return snapshot_of(self._engine.get())

    @property
    def compiled(self) -> int:
        """Number of batch shapes for which the step was compiled."""
        return self._engine.compiled

    def _seeds(self, step: int) -> Seeds:
        """Return the states of the random generators, (replicas, micro-batches, generators, 2)."""
        shape = (self._engine.replicas, self._layout.accumulate, self._model.seeds)
        words = bits(key(self._job.train.seed, "dropout", step - 1), np.arange(np.prod(shape), dtype=np.uint64))
        return words.view(np.uint32).reshape(*shape, 2) & np.uint32(0x7FFFFFFF)

    def _trained(self) -> list[str]:
        return [name for name, tensor in self._specs.items() if tensor.trained]

    def _initial(self, tensors: TensorFiles) -> StateArrays:
        progress = TrainProgress(0, initial_loss_scale(self._job.train.precision))
        weights = {name: tensors[name] for name in self._specs}
        m, v = ({name: np.zeros_like(weights[name]) for name in self._trained()} for _ in range(2))
        return _with_progress(weights, m, v, progress)

    def _restored(self, saved: CheckpointReader) -> StateArrays:
        weights = {name: saved.weights[name] for name in self._specs}
        m, v = ({name: saved.averages[f"{mark}.{name}"] for name in self._trained()} for mark in ("m", "v"))
        return _with_progress(weights, m, v, saved.progress)


def _with_progress(
    weights: dict[str, Floats], m: dict[str, Floats], v: dict[str, Floats], progress: TrainProgress
) -> StateArrays:
    numbers = np.int32(progress.updates), np.float32(progress.scale), np.int32(progress.good)
    return StateArrays(weights, m, v, *numbers)
