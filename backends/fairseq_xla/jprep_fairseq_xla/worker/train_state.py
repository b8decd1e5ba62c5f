"""Updates by fairseq's own trainer, with the mathematics of `docs/training.md`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from jprep.io.safetensors_file import TensorFiles
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.worker.profiling import Profiler
from jprep_fairseq_xla.models.fairseq_models import build_fairseq_model
from jprep_fairseq_xla.planning.fairseq_options import FairseqOptions
from jprep_fairseq_xla.worker import checkpoint
from jprep_fairseq_xla.worker.data import fairseq_sample
from jprep_fairseq_xla.worker.trainer import FairseqTrainer
from jprep_torch.models.model_with_loss import ModelInputs, ModelResult
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.loss_divisor import Number, or_one
from jprep_torch.worker.trainer import StepResult


class TrainState:
    """A model in fairseq's trainer: what `jprep_torch.worker.trainer.Trainer` trains.

    Args:
        job: the job.
        initial_weights: file with the weights of step 0 (`Session.initial_weights`).
        resume: the checkpoint to resume from; None to start with the initial weights.
        context: this process's devices.
        options: fairseq's options.
        profiler: measures the phases of a step; by default one that does nothing.
    """

    def __init__(
        self,
        job: Job,
        initial_weights: Path,
        resume: Path | None,
        context: DistributedContext,
        options: FairseqOptions,
        profiler: Profiler | None = None,
    ) -> None:
        self._job, self._context = job, context
        saved = CheckpointReader(resume) if resume else None
        weights = saved.weights if saved else TensorFiles([initial_weights])
        self._built = build_fairseq_model(job.model, job.train.objective, options, weights.__getitem__)
        self._built.task.precision = partial(context.autocast, job.train.precision)
        self._built.task.profiler = profiler or self._built.task.profiler
        self._trainer = FairseqTrainer(self._built, job, context.rank)
        self._weights = dict(self._trainer.get_model().named_parameters(remove_duplicate=False))
        self._trainer.optimizer.profiler = self._built.task.profiler
        self._trainer.optimizer.optimizer.create_averages()
        if saved:
            self._restore(saved)
        context.sync()

    @property
    def model(self) -> Any:
        """fairseq's model."""
        return self._trainer.model

    def loss(self, inputs: ModelInputs) -> ModelResult:
        """Return the sum of the losses, and no outputs: the task has no metrics besides the loss."""
        model, criterion = self._trainer.model, self._trainer.criterion
        loss, _, _ = self._built.task.valid_step(self._sample(inputs), model, criterion)
        self._context.sync()
        return ModelResult(loss, torch.empty(0))

    def update(
        self, micro_batches: Sequence[ModelInputs], labels: Number, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """Take one step; its learning rate is that of the scheduler in fairseq's options."""
        self._trainer.check = check
        # Without `raise_oom` fairseq skips a batch that does not fit into a GPU's memory.
        self._trainer.train_step([self._sample(inputs) for inputs in micro_batches], raise_oom=True)
        losses, self._built.task.losses = self._built.task.losses, []
        norm = float(self._trainer.norm)
        check(norm)
        # Read now: values that are not computed yet would become part of the next step's program.
        loss = sum(float(loss) for loss in losses) / float(or_one(labels))
        return StepResult(torch.tensor(loss, dtype=torch.float64), norm, 1.0)

    def save(self, folder: Path) -> None:
        """Write a checkpoint's files; each process has the whole state, and the first one writes it."""
        if self._context.first or self._context.kind == "xla":
            checkpoint.save(folder, self._job, self._built, self._weights, self._trainer, first=self._context.first)

    def checkpoint_writer(self) -> None:
        """Return None: fairseq's optimizer is written as it is."""

    def _restore(self, saved: CheckpointReader) -> None:
        checkpoint.restore(saved, self._job, self._built, self._weights, self._trainer)

    def _sample(self, inputs: ModelInputs) -> dict[str, Any]:
        shard_rows = self._context.shard_rows
        documents = None if inputs.documents is None else shard_rows(inputs.documents)
        return fairseq_sample(
            self._job.model["model_type"], shard_rows(inputs.ids), shard_rows(inputs.labels), documents
        )
