"""Updates of a model that PyTorch itself spreads over the devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from jprep.io.safetensors_file import TensorFiles
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader, TrainProgress
from jprep.train.run.directory import INIT
from jprep_torch.backend import Options
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.worker.checkpoint import restore, save
from jprep_torch.worker.distributed import DistributedContext
from jprep_torch.worker.optimizer import LossScale, adamw, global_norm, unscale_and_clip
from jprep_torch.worker.parallel import ParallelModel, compiled, enable_gradient_checkpointing
from jprep_torch.worker.trainer import StepResult
from jprep_torch.worker.xla_adamw import XlaAdamW


class TrainState:
    """A model, its optimizer and fp16's scale: what `jprep_torch.worker.trainer.Trainer` trains.

    Args:
        job: the job.
        run: the run directory.
        resume: the checkpoint to go on from; None at the beginning.
        place: this process's.
        options: the backend's.
        shard: whether the model is divided among the processes.
    """

    def __init__(
        self, job: Job, run: Path, resume: Path | None, place: DistributedContext, options: Options, *, shard: bool
    ) -> None:
        self._job, self._place = job, place
        saved = CheckpointReader(resume) if resume else None
        self._spread = ParallelModel(job, saved.weights if saved else TensorFiles([run / INIT]), place, shard=shard)
        self._optimizer = adamw(self._spread.weights, self._spread.shapes, job.train.optimizer, place.kind)
        self._scale, self._updates = LossScale(job.train.precision), 0
        if saved:
            restore(saved, self._spread, self._optimizer)
            self._scale.restore(saved.progress)
            self._updates = saved.progress.updates
        if isinstance(self._optimizer, XlaAdamW):
            self._optimizer.updates = self._updates
            self._optimizer.begin()
            place.sync()
        if options.recompute:
            enable_gradient_checkpointing(self.trainee.model)
        if options.compile:
            compiled(self.trainee)

    @property
    def trainee(self) -> ModelWithLoss:
        """The model and its loss."""
        return self._spread.trainee

    def loss(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of some rows' losses, and their outputs."""
        with self._place.autocast(self._job.train.precision):
            found: tuple[Tensor, Tensor] = self.trainee(self._divided(rows))
        self._place.sync()
        return found

    def update(
        self, parts: Sequence[ModelInputs], labels: int, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """One update, or none where fp16's scale was too large."""
        loss = self._gradient(parts, labels)
        weights = self._spread.weights.values()
        norm = global_norm(weights)
        if self._scale.passes(norm):
            check(norm)
            norm = unscale_and_clip(
                weights, norm, self._job.train.optimizer.clip, self._scale.factor, self._place.number
            )
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            self._updates += 1
            self._scale.after_update()
        self._optimizer.zero_grad()
        loss = loss / self._place.number(max(labels, 1))
        self._place.sync()
        return StepResult(loss, norm, self._scale.factor)

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder."""
        progress = TrainProgress(self._updates, self._scale.factor, self._scale.good)
        save(folder, self._spread, self._optimizer, progress, self._place)

    def _gradient(self, parts: Sequence[ModelInputs], labels: int) -> Tensor:
        """Sum up the gradient of the global batch's loss; this process's part of the loss, not yet divided."""
        loss = torch.zeros((), device=self._place.device)
        # Processes' gradients are averaged where they meet, and docs/training.md wants their sum.
        factor = self._place.number(self._scale.factor * self._place.world / max(labels, 1))
        for number, rows in enumerate(parts, 1):
            with self._spread.holding_back(number < len(parts)):
                with self._place.autocast(self._job.train.precision):
                    part, _ = self._spread(self._divided(rows))
                (part * factor).backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        return loss

    def _divided(self, rows: ModelInputs) -> ModelInputs:
        """Among XLA's devices, where this process has several."""
        divided = self._place.divided
        return rows._replace(ids=divided(rows.ids), labels=divided(rows.labels), lengths=divided(rows.lengths))
