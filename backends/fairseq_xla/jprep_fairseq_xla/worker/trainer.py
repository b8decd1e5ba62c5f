"""fairseq's trainer, with jprep's clipping and seeds; `jprep_torch.worker.trainer` runs the training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq import utils
from fairseq.trainer import Trainer
from torch import Tensor

import jprep_fairseq_xla.worker.optimizer  # noqa: F401 - registers the optimizer and the schedule
from jprep.random.counter_bits import key
from jprep.train.job.config import Job
from jprep_fairseq_xla.models.fairseq_models import FairseqModel


class FairseqTrainer(Trainer):
    """fairseq's trainer.

    Args:
        built: the model, and what fairseq needs to train it.
        job: the job.
        rank: number of this process.

    Attributes:
        norm: norm of the last gradient, before clipping.
        check: called with the norm before the weights change, if it is known by then: on a CPU.
    """

    def __init__(self, built: FairseqModel, job: Job, rank: int) -> None:
        super().__init__(built.cfg, built.task, built.model, built.criterion)
        self._seed, self._rank = job.train.seed, rank
        self.norm: Any = None
        self.check: Callable[[float], None] = lambda norm: None

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """Clip the gradient, and return its norm before clipping."""
        with self.task.profiler.phase("optimizer"):
            self.norm = super().clip_grad_norm(clip_norm)
        if not self.tpu:
            self.check(float(self.norm))
        return self.norm

    def _set_seed(self) -> None:
        """Seed dropout with the step and the process only, so that a resumed run drops the same."""
        utils.set_torch_seed(int(key(self._seed, "dropout", self.get_num_updates(), self._rank)[0]) >> 1)
