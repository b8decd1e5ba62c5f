"""Updates of a model that DeepSpeed divides among the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.io.safetensors_file import TensorFiles
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader, TrainProgress
from jprep.train.run.directory import INIT
from jprep_deepspeed.worker.checkpoint import restore, save
from jprep_deepspeed.worker.parallel import Config, divide_model
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.worker.distributed import DistributedContext
from jprep_torch.worker.optimizer import LossScale, global_norm, unscale_and_clip
from jprep_torch.worker.trainer import StepResult


class TrainState:
    """A model in DeepSpeed's hands: what `jprep_torch.worker.trainer.Trainer` trains.

    In stage 0 weights and gradients are whole everywhere and in fp32, and all but their sum over the processes is done
    as the backend torch does it. In the others DeepSpeed has the weights in half precision, clips and updates. fp16's
    scale is jprep's in all of them.

    Args:
        job: the job.
        run: the run directory.
        resume: the checkpoint to go on from; None at the beginning.
        place: this process's.
        settings: DeepSpeed's configuration.
        recompute: whether only each layer's input is kept for the way back.
    """

    def __init__(
        self, job: Job, run: Path, resume: Path | None, place: DistributedContext, settings: Config, *, recompute: bool
    ) -> None:
        self._job, self._place = job, place
        saved = CheckpointReader(resume) if resume else None
        weights = saved.weights if saved else TensorFiles([run / INIT])
        self._zero = divide_model(job, weights, settings, place, recompute=recompute)
        self._scale, self._updates = LossScale(job.train.precision), 0
        if saved:
            self._scale.restore(saved.progress)
            self._updates = saved.progress.updates
        restore(self._zero, weights, saved.averages if saved else {}, self._updates)

    @property
    def trainee(self) -> ModelWithLoss:
        """The model and its loss."""
        return self._zero.trainee

    def loss(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of some rows' losses, and their outputs."""
        return self._loss(self.trainee, rows)

    def update(
        self, parts: Sequence[ModelInputs], labels: int, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """One update, or none where fp16's scale was too large."""
        for group in self._zero.optimizer.param_groups:
            group["lr"] = rate
        loss = self._gradient(parts, labels)
        norm = self._step_divided(check) if self._zero.stage else self._step_whole(check)
        return StepResult(loss / max(labels, 1), norm, self._scale.factor)

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder; each process writes some of the tensors."""
        progress = TrainProgress(self._updates, self._scale.factor, self._scale.good)
        save(folder, self._zero, progress, self._place)

    def _loss(self, call: Any, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """Divided weights are in half precision already."""
        with self._place.autocast("fp32" if self._zero.stage else self._job.train.precision):
            found: tuple[Tensor, Tensor] = call(rows)
            return found

    def _gradient(self, parts: Sequence[ModelInputs], labels: int) -> Tensor:
        """Sum up the gradient of the global batch's loss; this process's part of the loss, not yet divided."""
        engine, stage = self._zero.engine, self._zero.stage
        if stage and self._job.train.precision == "fp16":
            engine.optimizer.override_loss_scale(self._scale.factor)
        loss = torch.zeros((), device=self._place.device)
        # Processes' gradients are averaged where they meet, and docs/training.md wants their sum.
        factor = (1.0 if stage else self._scale.factor) * self._place.world / max(labels, 1)
        for number, rows in enumerate(parts, 1):
            engine.set_gradient_accumulation_boundary(number == len(parts))
            part, _ = self._loss(engine, rows)
            engine.backward(part * factor, scale_wrt_gas=False)
            loss += part.detach()
        return loss

    def _step_divided(self, check: Callable[[float], None]) -> float:
        """DeepSpeed's step: none where the gradient is not finite, or `check` ends the run before anything is saved."""
        engine = self._zero.engine
        engine.step()
        norm = math.nan if engine.optimizer.overflow else float(engine.get_global_grad_norm())
        if self._scale.passes(norm):
            check(norm)
            self._updated()
        return norm

    def _step_whole(self, check: Callable[[float], None]) -> float:
        weights = self._zero.trained.values()
        norm = global_norm(weights)
        if not self._scale.passes(norm):
            self._zero.engine.zero_grad()
            return norm
        check(norm)
        norm = unscale_and_clip(weights, norm, self._job.train.optimizer.clip, self._scale.factor)
        self._zero.engine.step()
        self._updated()
        return norm

    def _updated(self) -> None:
        self._updates += 1
        self._scale.after_update()
