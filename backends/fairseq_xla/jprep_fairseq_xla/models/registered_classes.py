"""What fairseq finds by name: the task that wraps jprep's batches, AdamW and the schedules of `docs/training.md`.

Importing it registers them. It is imported after `mended_fairseq`, and dataclasses here keep their annotations as
types, which fairseq makes its command line of.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II
from torch import Tensor, nn

from jprep.train.job.config import ScheduleConfig
from jprep.train.job.schedule import learning_rate
from jprep_torch.models.model_with_loss import NO_LABEL
from jprep_torch.worker.xla_adamw import XlaAdamW, clip


@dataclass
class JprepTaskConfig(FairseqDataclass):
    """Of the task: how many ids there are, and which of them pads; -1 for none."""

    ids: int = field(default=0, metadata={"help": "how many ids the tokenizer has"})
    pad: int = field(default=-1, metadata={"help": "the id that fills rows up"})
    max_target_positions: int = field(default=1024, metadata={"help": "positions of a decoder"})
    tokens_per_sample: int = field(default=1024, metadata={"help": "as max_target_positions"})
    add_bos_token: bool = field(default=False, metadata={"help": "never: rows are complete"})


class IdDictionary(Dictionary):
    """A dictionary of ids that are their own names. There are exactly as many as the tokenizer has.

    Args:
        ids: how many.
        pad: the one that pads; None where none does.
    """

    def __init__(self, ids: int, pad: int | None) -> None:
        super().__init__()
        self.symbols = [str(number) for number in range(ids)]
        self.count = [1] * ids
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.pad_index, self.nspecial = pad, 0


@register_task("jprep", dataclass=JprepTaskConfig)
class JprepTask(FairseqTask):
    """Batches come from jprep's sampler, by the worker; fairseq sees one at a time, and its labels.

    Attributes:
        precision: what `autocast` gives is around the forward pass.
        losses: of what was trained on since they were last taken: sums, natural logarithms.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self._dictionary = IdDictionary(cfg.ids, None if cfg.pad < 0 else cfg.pad)
        self.precision: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.losses: list[Tensor] = []

    @property
    def source_dictionary(self) -> IdDictionary:
        """All ids."""
        return self._dictionary

    @property
    def target_dictionary(self) -> IdDictionary:
        """The same."""
        return self._dictionary

    @property
    def dictionary(self) -> IdDictionary:
        """The same, as older models ask for it."""
        return self._dictionary

    def max_positions(self) -> int:
        """As many as the model has."""
        return int(self.cfg.max_target_positions)

    def build_criterion(self, cfg: Any) -> nn.Module:
        """fairseq's own, with what has no label marked as jprep marks it."""
        criterion = super().build_criterion(cfg)
        criterion.padding_idx = NO_LABEL
        return criterion

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """One micro-batch's gradient."""
        with self.precision():
            loss, size, figures = criterion(model, sample)
        optimizer.backward(loss * 0 if ignore_grad else loss)
        self.losses.append(loss.detach())
        return loss, size, figures

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> tuple[Tensor, Any, dict[str, Any]]:
        """One micro-batch's loss."""
        with torch.no_grad(), self.precision():
            return criterion(model, sample)


@register_optimizer("jprep_adamw", dataclass=FairseqAdamConfig)
class JprepAdamW(FairseqOptimizer):
    """AdamW and clipping as `docs/training.md` has them: fairseq's own adds ε before it corrects v, decays biases and
    norms, and adds 10⁻⁶ to the gradient's norm.
    """

    def __init__(self, cfg: Any, params: Iterable[nn.Parameter]) -> None:
        super().__init__(cfg)
        betas = utils.eval_str_list(cfg.adam_betas) if isinstance(cfg.adam_betas, str) else list(cfg.adam_betas)
        all_ = list(params)
        groups = [
            {"params": [weight for weight in all_ if weight.dim() >= 2], "weight_decay": cfg.weight_decay},
            {"params": [weight for weight in all_ if weight.dim() < 2], "weight_decay": 0.0},
        ]
        self._optimizer = XlaAdamW(groups, float(cfg.lr[0]), tuple(betas), cfg.adam_eps)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        """The norm before clipping."""
        return clip([weight for weight in self.params if weight.grad is not None], max_norm)


@dataclass
class JprepScheduleConfig(FairseqDataclass):
    """The job's schedule."""

    kind: str = field(default="linear", metadata={"help": "how the learning rate falls"})
    warmup_updates: int = field(default=0, metadata={"help": "updates in which it rises"})
    floor: float = field(default=0.0, metadata={"help": "share of it that is left at the end"})
    total_num_update: int = field(default=1, metadata={"help": "updates until the rate has reached the floor"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 - a reference, as fairseq's own have it


@register_lr_scheduler("jprep", dataclass=JprepScheduleConfig)
class JprepSchedule(FairseqLRScheduler):
    """`jprep.train.job.schedule`: the first update has a rate, the last one too."""

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the update that comes next."""
        cfg = self.cfg
        section = ScheduleConfig(kind=cfg.kind, warmup=cfg.warmup_updates, floor=cfg.floor)
        self.optimizer.set_lr(learning_rate(num_updates, cfg.total_num_update, cfg.lr[0], section))
        return float(self.optimizer.get_lr())
