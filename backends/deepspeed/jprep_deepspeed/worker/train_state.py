"""A model in DeepSpeed's engine, and how it is updated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.io.safetensors_file import TensorFiles
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader, TrainProgress
from jprep.train.worker.profiling import Profiler
from jprep.train.worker.rtd_figures import SUMS
from jprep_deepspeed.worker.checkpoint import restore, save, take_snapshot
from jprep_deepspeed.worker.parallel import Config, parallelize
from jprep_torch.models.model_with_loss import ModelInputs, ModelResult, ModelWithLoss
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.loss_divisor import Number, add_count, labels_or_count, or_one
from jprep_torch.worker.optimizer import LossScale, clip, global_norm, rescale_gradients, set_rate, unscale_and_clip
from jprep_torch.worker.trainer import CheckpointWriter, StepResult


class TrainState:
    """A model in DeepSpeed's engine, its optimizer and the loss scale.

    In stage 0 weights and gradients are unsharded and in fp32, and everything but the sum of gradients over processes
    is done as by the backend torch. In the other stages DeepSpeed keeps weights in half precision, clips and updates.
    In all of them jprep adjusts the loss scale of fp16.

    Args:
        job: the job.
        initial_weights: file with the weights of step 0 (`Session.initial_weights`).
        resume: directory of the checkpoint to resume from; None to start from the initial weights.
        context: this process's device and rank.
        config: DeepSpeed's configuration.
        gradient_checkpointing: whether only the layers' inputs are kept for the backward pass.
        hooks: the job's hooks.
        profiler: measures the phases of a step; by default one that does nothing.
    """

    def __init__(
        self,
        job: Job,
        initial_weights: Path,
        resume: Path | None,
        context: DistributedContext,
        config: Config,
        *,
        gradient_checkpointing: bool,
        hooks: LoadedHooks = NO_HOOKS,
        profiler: Profiler | None = None,
    ) -> None:
        self._job, self._context, self._hooks = job, context, hooks
        self._profiler = profiler or Profiler(Path())
        self._copies = context.kind == "cuda" and keeps_on_device(config)
        saved = CheckpointReader(resume) if resume else None
        weights = saved.weights if saved else TensorFiles([initial_weights])
        self._parallel = parallelize(
            job, weights, config, context, gradient_checkpointing=gradient_checkpointing, hooks=hooks
        )
        self._scale, self._updates = LossScale(job.train.precision), 0
        if saved:
            self._scale.restore(saved.progress)
            self._updates = saved.progress.updates
        restore(self._parallel, weights, saved.averages if saved else {}, self._updates)

    @property
    def model(self) -> ModelWithLoss:
        """The model and its loss."""
        return self._parallel.model

    def loss(self, inputs: ModelInputs) -> ModelResult:
        """Return the summed loss of some rows, their outputs, and the count of a loss hook."""
        return self._forward(self.model, inputs)

    def update(
        self, micro_batches: Sequence[ModelInputs], labels: Number, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """Update the weights, unless the gradient overflowed because fp16's loss scale was too large."""
        set_rate(self._parallel.optimizer, rate)
        loss, sums, count = self._accumulate_gradients(micro_batches, labels)
        divisor = labels_or_count(labels, count, self._context)
        with self._profiler.phase("optimizer"):
            if count is not None:
                self._rescale(float(or_one(labels)) / float(divisor))
            norm = self._engine_step(check) if self._parallel.stage else self._unsharded_step(check)
        return StepResult(loss / divisor, norm, self._scale.factor, sums)

    def save(self, folder: Path) -> None:
        """Write a checkpoint; each process writes some of the tensors."""
        save(folder, self._parallel, self._progress, self._context)

    def checkpoint_writer(self) -> CheckpointWriter | None:
        """Return what writes a checkpoint from copies of a GPU's tensors; None if the tensors are in main memory."""
        if not self._copies:
            return None
        return take_snapshot(self._parallel, self._progress, self._context).write

    @property
    def _progress(self) -> TrainProgress:
        return TrainProgress(self._updates, self._scale.factor, self._scale.good_steps)

    def _forward(self, model: Any, inputs: ModelInputs) -> ModelResult:
        """Compute the loss, with autocast in stage 0; in other stages weights are in half precision already."""
        with self._context.autocast("fp32" if self._parallel.stage else self._job.train.precision):
            found: ModelResult = model(inputs)
            return found

    def _accumulate_gradients(self, micro_batches: Sequence[ModelInputs], labels: Number) -> ModelResult:
        """Accumulate the gradient of the global batch's loss.

        Returns:
            This process's part of the loss, not yet divided by the number of labels; of the sums of `rtd`, zeros for
            other tasks; and of the count of a loss hook.
        """
        engine, stage = self._parallel.engine, self._parallel.stage
        hooked = self._hooks.loss and hasattr(engine.optimizer, "override_loss_scale")
        if stage and (hooked or self._job.train.precision == "fp16"):
            engine.optimizer.override_loss_scale(self._scale.factor)
        loss, sums = (torch.zeros(size, device=self._context.device) for size in ((), len(SUMS)))
        total = None
        # DeepSpeed averages gradients over processes; docs/training.md needs their sum.
        factor = (1.0 if stage else self._scale.factor) * self._context.world / or_one(labels)
        for number, inputs in enumerate(micro_batches, 1):
            engine.set_gradient_accumulation_boundary(number == len(micro_batches))
            with self._profiler.phase("forward"):
                part, outputs, count = self._forward(engine, inputs)
            with self._profiler.phase("backward"):
                engine.backward(part * factor, scale_wrt_gas=False)
            loss += part.detach()
            sums += outputs if inputs.rtd else 0
            total = add_count(total, count)
        return ModelResult(loss, sums, total)

    def _rescale(self, factor: float) -> None:
        """Multiply gradients by labels / count of a loss hook; DeepSpeed's stages divide by their loss scale.

        Raises:
            ConfigError: the factor is not 1, and DeepSpeed's optimizer has no loss scale: stage 1 in bf16.
        """
        zero = self._parallel.engine.optimizer
        if not self._parallel.stage:
            rescale_gradients(self._parallel.trained.values(), factor)
        elif hasattr(zero, "override_loss_scale"):
            zero.override_loss_scale(self._scale.factor / factor)
        elif factor != 1.0 and self._hooks.loss:
            what = "returned a count other than the number of labels, which DeepSpeed cannot use in stage 1 with bf16"
            raise self._hooks.loss.error(what, fix="use another stage, or return (sum of the losses, len(labels))")

    def _engine_step(self, check: Callable[[float], None]) -> float | Tensor:
        """Update by DeepSpeed, which skips gradients that are not finite; `check` then ends the run before a save."""
        engine = self._parallel.engine
        engine.step()
        if self._job.train.precision != "fp16" and not engine.optimizer.overflow:
            self._count_update()
            norm = torch.as_tensor(engine.get_global_grad_norm(), device=self._context.device).view(())
            return torch.where(norm < 0, math.nan, norm)  # DeepSpeed gives -1 for what is not finite
        norm = math.nan if engine.optimizer.overflow else float(engine.get_global_grad_norm())
        if self._scale.accepts(norm):
            check(norm)
            self._count_update()
        return norm

    def _unsharded_step(self, check: Callable[[float], None]) -> float | Tensor:
        weights, limit = self._parallel.trained.values(), self._job.train.optimizer.clip
        norm_on_device = global_norm(weights)
        if self._job.train.precision != "fp16":
            clip(weights, norm_on_device, limit, self._parallel.optimizer, sharded=False)
            self._parallel.engine.step()
            self._count_update()
            return norm_on_device
        norm = float(norm_on_device)
        if not self._scale.accepts(norm):
            self._parallel.engine.zero_grad()
            return norm
        check(norm)
        norm = unscale_and_clip(weights, norm, limit, self._scale.factor)
        self._parallel.engine.step()
        self._count_update()
        return norm

    def _count_update(self) -> None:
        self._updates += 1
        self._scale.grow()


def keeps_on_device(config: Config) -> bool:
    """Return whether a DeepSpeed configuration keeps all that training changes on the device."""
    zero = config.get("zero_optimization", {})
    return all(zero.get(key, {}).get("device", "none") == "none" for key in ("offload_optimizer", "offload_param"))
