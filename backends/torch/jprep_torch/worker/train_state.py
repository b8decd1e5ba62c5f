"""A model that PyTorch distributes, its optimizer, and how they are updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from jprep.io.safetensors_file import TensorFiles
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointPart, CheckpointReader, TrainProgress
from jprep.train.worker.profiling import Profiler
from jprep.train.worker.rtd_figures import SUMS
from jprep_torch.models.model_with_loss import ModelInputs, ModelResult, ModelWithLoss
from jprep_torch.options import Options
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.checkpoint import own_part, restore, save_from_xla, take_snapshot
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.parallel_model import ParallelModel, compile_model, enable_gradient_checkpointing
from jprep_torch.worker.loss_divisor import Number, add_count, labels_or_count, or_one
from jprep_torch.worker.optimizer import (
    LossScale,
    clip,
    global_norm,
    make_optimizer,
    rescale_gradients,
    set_rate,
    unscale_and_clip,
)
from jprep_torch.worker.trainer import CheckpointWriter, StepResult
from jprep_torch.worker.update_rules.xla_adamw import XlaAdamW


class TrainState:
    """A model, its optimizer and the loss scale.

    Args:
        job: the job.
        initial_weights: file with the weights of step 0 (`Session.initial_weights`).
        resume: directory of the checkpoint to resume from; None to start from the initial weights.
        context: this process's device and rank.
        options: the backend's options.
        shard: whether the model is sharded among the processes.
        hooks: the job's hooks.
        profiler: measures the phases of a step; by default one that does nothing.
        trains: whether the model will be trained; otherwise the optimizer has no state, which takes twice the memory of
            the weights.
    """

    def __init__(
        self,
        job: Job,
        initial_weights: Path,
        resume: Path | None,
        context: DistributedContext,
        options: Options,
        *,
        shard: bool,
        hooks: LoadedHooks = NO_HOOKS,
        profiler: Profiler | None = None,
        trains: bool = True,
    ) -> None:
        self._job, self._context = job, context
        self._profiler = profiler or Profiler(Path())
        saved = CheckpointReader(resume) if resume else None
        weights = saved.weights if saved else TensorFiles([initial_weights])
        self._parallel = ParallelModel(job, weights, context, shard=shard, hooks=hooks, trains=trains)
        self._optimizer = make_optimizer(
            self._parallel.weights, self._parallel.shapes, job.train.optimizer, context.kind
        )
        self._scale, self._updates = LossScale(job.train.precision), 0
        if saved and trains:
            self._restore(saved)
        if isinstance(self._optimizer, XlaAdamW) and trains:
            self._optimizer.updates = self._updates
            self._optimizer.create_averages()
            context.sync()
        if options.gradient_checkpointing:
            enable_gradient_checkpointing(self.model.model)
        if options.compile:
            compile_model(self.model)

    @property
    def model(self) -> ModelWithLoss:
        """The model and its loss."""
        return self._parallel.model

    def loss(self, inputs: ModelInputs) -> ModelResult:
        """Return the summed loss of some rows, their outputs, and the count of a loss hook."""
        with self._context.autocast(self._job.train.precision):
            found: ModelResult = self.model(self._sharded(inputs))
        self._context.sync()
        return found

    def update(
        self, micro_batches: Sequence[ModelInputs], labels: Number, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """Update the weights, unless the gradient overflowed because fp16's loss scale was too large."""
        loss, sums, count = self._accumulate_gradients(micro_batches, labels)
        divisor = labels_or_count(labels, count, self._context)
        with self._profiler.phase("optimizer"):
            if count is not None:
                rescale_gradients(self._parallel.weights.values(), or_one(labels) / divisor)
            norm = self._apply_gradients(rate, check)
        loss = loss / self._context.number(divisor)
        self._context.sync()
        return StepResult(loss, norm, self._scale.factor, sums)

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        if self._context.kind == "xla":
            save_from_xla(folder, self._parallel, self._optimizer, self._progress, self._context)
        elif part := self._own_part():
            part.write(folder)

    def checkpoint_writer(self) -> CheckpointWriter | None:
        """Return what writes a checkpoint from copies in main memory; None except on GPUs.

        On a CPU copies would double the memory, and XLA's programs have to run in the thread that trains.
        """
        if self._context.kind != "cuda":
            return None
        part = self._own_part()
        return take_snapshot(part).write if part else lambda folder: None

    def _own_part(self) -> CheckpointPart | None:
        return own_part(self._parallel, self._optimizer, self._progress, self._context)

    @property
    def _progress(self) -> TrainProgress:
        return TrainProgress(self._updates, self._scale.factor, self._scale.good_steps)

    def _restore(self, saved: CheckpointReader) -> None:
        restore(saved, self._parallel, self._optimizer)
        self._scale.restore(saved.progress)
        self._updates = saved.progress.updates

    def _apply_gradients(self, rate: float, check: Callable[[float], None]) -> float | Tensor:
        """Clip the gradients and update the weights; return the norm before clipping."""
        weights = self._parallel.weights.values()
        if self._job.train.precision != "fp16" and self._context.kind not in XLA_DEVICES:
            norm_on_device = global_norm(weights)
            clip(
                weights, norm_on_device, self._job.train.optimizer.clip, self._optimizer, sharded=self._parallel.sharded
            )
            self._step(rate)
            self._optimizer.zero_grad()
            return norm_on_device
        norm = float(global_norm(weights))
        if self._scale.accepts(norm):
            check(norm)
            limit = self._job.train.optimizer.clip
            norm = unscale_and_clip(weights, norm, limit, self._scale.factor, self._context.number)
            self._step(rate)
        self._optimizer.zero_grad()
        return norm

    def _step(self, rate: float) -> None:
        set_rate(self._optimizer, rate)
        self._optimizer.step()
        self._updates += 1
        self._scale.grow()

    def _accumulate_gradients(self, micro_batches: Sequence[ModelInputs], labels: Number) -> ModelResult:
        """Accumulate the gradient of the global batch's loss.

        Returns:
            This process's part of the loss, not yet divided by the number of labels; of the sums of `rtd`, zeros for
            other tasks; and of the count of a loss hook.
        """
        loss, sums = (torch.zeros(size, device=self._context.device) for size in ((), len(SUMS)))
        total = None
        # PyTorch averages gradients over processes; docs/training.md needs their sum.
        factor = self._context.number(self._scale.factor * self._context.world / or_one(labels))
        for number, inputs in enumerate(micro_batches, 1):
            with self._parallel.delay_reduction(number < len(micro_batches)):
                with self._profiler.phase("forward"), self._context.autocast(self._job.train.precision):
                    part, outputs, count = self._parallel(self._sharded(inputs))
                with self._profiler.phase("backward"):
                    (part * factor).backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
            sums += outputs if inputs.rtd else 0
            total = add_count(total, count)
        return ModelResult(loss, sums, total)

    def _sharded(self, inputs: ModelInputs) -> ModelInputs:
        """Divide rows among the XLA devices of this process."""
        shard = self._context.shard_rows
        fields = {name: field for name, field in inputs._asdict().items() if isinstance(field, Tensor)}
        sharded = inputs._replace(**{name: shard(field) for name, field in fields.items()})
        if rtd := inputs.rtd:
            rtd = rtd._replace(noise_keys=shard(rtd.noise_keys), tokens=shard(rtd.tokens))
        return sharded._replace(rtd=rtd)
