"""AdamW, clipping and the learning rate schedule, as classes that fairseq finds by name.

Importing this module registers them; import it after `import_fairseq`. Annotations of the dataclass must be types, not
strings, as fairseq builds its command line from them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor, nn

from jprep.train.optimization.optimizer import OptimizerConfig
from jprep.train.optimization.schedule import ScheduleConfig, learning_rate
from jprep.train.worker.profiling import Profiler
from jprep_torch.worker.update_rules.xla_adamw import XlaAdamW, clip


@dataclass
class JprepAdamWConfig(FairseqAdamConfig):
    """Options of AdamW: fairseq's, and what decays."""

    decay: str = field(default="matrices", metadata={"help": "what decays: matrices, or all"})


@register_optimizer("jprep_adamw", dataclass=JprepAdamWConfig)
class JprepAdamW(FairseqOptimizer):
    """AdamW and clipping as `docs/training.md` defines them.

    fairseq's own AdamW adds ε before the bias correction of v, decays biases and norms, and adds 10⁻⁶ to the gradient's
    norm.

    Attributes:
        profiler: measures the phases of a step.
    """

    def __init__(self, cfg: Any, params: Iterable[nn.Parameter]) -> None:
        super().__init__(cfg)
        betas = utils.eval_str_list(cfg.adam_betas) if isinstance(cfg.adam_betas, str) else list(cfg.adam_betas)
        weights, section = list(params), OptimizerConfig(weight_decay=cfg.weight_decay, decay=cfg.decay)
        groups = [
            {"params": [weight for weight in weights if weight.dim() >= 2], "weight_decay": section.decay_of(2)},
            {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": section.decay_of(1)},
        ]
        self._optimizer = XlaAdamW(groups, float(cfg.lr[0]), tuple(betas), cfg.adam_eps)
        self.profiler = Profiler(Path())

    def all_reduce_grads(self, module: nn.Module) -> None:
        """Sum the gradients of all processes."""
        with self.profiler.phase("waiting"):
            super().all_reduce_grads(module)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        """Clip the gradient, and return its norm before clipping."""
        return clip([weight for weight in self.params if weight.grad is not None], max_norm)


@dataclass
class JprepScheduleConfig(FairseqDataclass):
    """Options of the schedule: those of the job."""

    kind: str = field(default="linear", metadata={"help": "how the learning rate decays"})
    warmup_updates: int = field(default=0, metadata={"help": "updates of the warm-up"})
    floor: float = field(default=0.0, metadata={"help": "final rate, as a share of the peak"})
    decay_steps: int = field(default=0, metadata={"help": "updates of the decay of wsd"})
    decay_shape: str = field(default="1-sqrt", metadata={"help": "the decay of wsd"})
    restarts: str = field(default="", metadata={"help": "updates before which the schedule begins again"})
    restart_warmup: int = field(default=0, metadata={"help": "updates of the warm-up after each restart"})
    total_num_update: int = field(default=1, metadata={"help": "updates until the rate reaches the floor"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 - a reference, as in fairseq's own configurations


@register_lr_scheduler("jprep", dataclass=JprepScheduleConfig)
class JprepSchedule(FairseqLRScheduler):
    """The schedule of `jprep.train.optimization.schedule`, which gives the first and the last update a rate, too."""

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate of the next update."""
        cfg = self.cfg
        section = ScheduleConfig(
            kind=cfg.kind,
            warmup=cfg.warmup_updates,
            floor=cfg.floor,
            decay_steps=cfg.decay_steps,
            decay_shape=cfg.decay_shape,
            restarts=[int(step) for step in cfg.restarts.split(",") if step],
            restart_warmup=cfg.restart_warmup,
        )
        self.optimizer.set_lr(learning_rate(num_updates, cfg.total_num_update, cfg.lr[0], section))
        return float(self.optimizer.get_lr())
