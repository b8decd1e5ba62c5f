"""Updates by fairseq's own trainer, with the mathematics of `docs/training.md`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.trainer import Trainer
from torch import Tensor

from jprep.io.safetensors_file import Floats, TensorFiles
from jprep.random.counter_bits import key
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import (
    AVERAGES,
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    write_from_first,
    write_progress,
)
from jprep.train.run.directory import INIT
from jprep_fairseq_xla.models.fairseq_models import FairseqModel, build_fairseq_model, fairseq_sample
from jprep_fairseq_xla.models.weights import tensor_locations, to_fairseq_weights, to_transformers_tensor
from jprep_fairseq_xla.planning.fairseq_options import FairseqOptions
from jprep_torch.models.model_with_loss import ModelInputs
from jprep_torch.worker.distributed import DistributedContext
from jprep_torch.worker.trainer import StepResult
from jprep_torch.worker.xla_adamw import M, V

_KEPT = dict(zip(AVERAGES, (M, V), strict=True))


class FairseqTrainer(Trainer):
    """fairseq's trainer.

    Args:
        made: what it trains.
        job: the job.
        rank: this process's number.

    Attributes:
        norm: of the last gradient, before clipping.
        check: is given it before weights change, where it is known by then: on a CPU.
    """

    def __init__(self, made: FairseqModel, job: Job, rank: int) -> None:
        super().__init__(made.cfg, made.task, made.model, made.criterion)
        self._seed, self._rank = job.train.seed, rank
        self.norm: Any = None
        self.check: Callable[[float], None] = lambda norm: None

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """The norm before clipping."""
        self.norm = super().clip_grad_norm(clip_norm)
        if not self.tpu:
            self.check(float(self.norm))
        return self.norm

    def _set_seed(self) -> None:
        """What is dropped depends on the step and the process, and on nothing that came before."""
        utils.set_torch_seed(int(key(self._seed, "dropout", self.get_num_updates(), self._rank)[0]) >> 1)


class TrainState:
    """A model in the hands of fairseq's trainer: what `jprep_torch.worker.trainer.Trainer` trains.

    Args:
        job: the job.
        run: the run directory.
        resume: the checkpoint to go on from; None at the beginning.
        place: this process's.
        settings: fairseq's options.
    """

    def __init__(
        self, job: Job, run: Path, resume: Path | None, place: DistributedContext, settings: FairseqOptions
    ) -> None:
        self._job, self._place = job, place
        saved = CheckpointReader(resume) if resume else None
        self._made = build_fairseq_model(
            job.model, job.train.task, settings, saved.weights if saved else TensorFiles([run / INIT])
        )
        self._made.task.precision = partial(place.autocast, job.train.precision)
        self._trainer = FairseqTrainer(self._made, job, place.rank)
        self._weights = dict(self._trainer.get_model().named_parameters(remove_duplicate=False))
        self._trainer.optimizer.optimizer.begin()
        if saved:
            self._restore(saved)
        place.sync()

    @property
    def trainee(self) -> Any:
        """fairseq's model."""
        return self._trainer.model

    def loss(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of some rows' losses; of tokens there are no outputs that anybody looks at."""
        loss, _, _ = self._made.task.valid_step(self._sample(rows), self._trainer.model, self._trainer.criterion)
        self._place.sync()
        return loss, torch.empty(0)

    def update(
        self, parts: Sequence[ModelInputs], labels: int, rate: float, check: Callable[[float], None]
    ) -> StepResult:
        """One update; its rate is that of the scheduler that fairseq was given."""
        self._trainer.check = check
        self._trainer.train_step([self._sample(rows) for rows in parts])
        losses, self._made.task.losses = self._made.task.losses, []
        norm = float(self._trainer.norm)
        check(norm)
        # Read now: what XLA has not computed by the next step would be computed with it, in another program.
        loss = sum(float(loss) for loss in losses) / max(labels, 1)
        return StepResult(torch.tensor(loss, dtype=torch.float64), norm, 1.0)

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder; each process has all of it, and the first one writes."""
        job, first = self._job, self._place.first
        if not self._place.saves:
            return
        found = tensor_locations(job.model, job.train.task)
        shapes = {name: to_transformers_tensor(spot, self._weight).shape for name, spot in sorted(found.items())}
        trained = [name for name in shapes if set(found[name].names) <= set(self._made.trained)]
        read: dict[str, Callable[[str], Floats]] = {mark: partial(self._average, kept) for mark, kept in _KEPT.items()}

        def average(name: str) -> list[Floats]:
            mark, _, own = name.partition(".")
            return [to_transformers_tensor(found[own], read[mark])]

        write_from_first(
            folder, WEIGHTS, shapes, lambda name: [to_transformers_tensor(found[name], self._weight)], first=first
        )
        write_from_first(folder, OPTIMIZER, average_shapes(shapes, trained), average, first=first)
        if first:
            write_progress(folder, TrainProgress(self._trainer.get_num_updates()))

    def _restore(self, saved: CheckpointReader) -> None:
        """Give the optimizer what a checkpoint kept of it; the weights are loaded."""
        adam = self._trainer.optimizer.optimizer
        adam.updates = saved.progress.updates
        for mark, kept in _KEPT.items():

            def read(name: str, mark: str = mark) -> Floats:
                found = saved.averages.get(f"{mark}.{name}")
                return np.zeros_like(saved.weights[name]) if found is None else found

            for name, array in to_fairseq_weights(self._job.model, self._job.train.task, read).items():
                if name in self._made.trained:
                    adam.averages(self._weights[name])[kept].copy_(torch.from_numpy(array))
        self._trainer.set_num_updates(saved.progress.updates)

    def _sample(self, rows: ModelInputs) -> dict[str, Any]:
        divided = self._place.divided
        return fairseq_sample(self._job.model["model_type"], divided(rows.ids), divided(rows.labels))

    def _weight(self, name: str) -> Floats:
        return _numbers(self._weights[name])

    def _average(self, kept: str, name: str) -> Floats:
        return _numbers(self._trainer.optimizer.optimizer.averages(self._weights[name])[kept])


def _numbers(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().float().cpu().numpy()
    return found
