"""DeepSpeed's engine around a job's model, with the mathematics of docs/training.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from torch import Tensor, nn

from jprep.errors import ConfigError
from jprep.io.safetensors_file import Floats, Shape
from jprep.train.job.config import Job
from jprep_deepspeed.options import SECTION
from jprep_torch.models.model_with_loss import ModelWithLoss
from jprep_torch.models.transformers_models import build, load, weight_names
from jprep_torch.worker.distributed import DistributedContext
from jprep_torch.worker.optimizer import adamw
from jprep_torch.worker.parallel import enable_gradient_checkpointing

SHARDED_WEIGHTS_STAGE = 3
"""The stage in which weights themselves are divided among the processes."""

HALF_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}

_ADDED = 1e-6  # to the gradient's norm, by DeepSpeed, before it clips
_ONLY_INFERENCE = "deepspeed_shm_comm"

Config = dict[str, Any]
"""DeepSpeed's configuration, whole."""


class ParallelModel(NamedTuple):
    """A model in DeepSpeed's hands.

    Attributes:
        engine: DeepSpeed's.
        stage: ZeRO's; 0 keeps everything whole on each process.
        trainee: the model and its loss.
        optimizer: PyTorch's, of what this process updates of the weights.
        trained: the weights by the names that files have them under, in the order of these names.
        fixed: those that are not trained, in fp32.
        shapes: of all, in the same order.
    """

    engine: Any
    stage: int
    trainee: ModelWithLoss
    optimizer: torch.optim.Optimizer
    trained: dict[str, nn.Parameter]
    fixed: dict[str, Tensor]
    shapes: dict[str, Shape]


def stage_of(settings: Config) -> int:
    """ZeRO's stage."""
    return int(settings.get("zero_optimization", {}).get("stage", 0))


def divide_model(
    job: Job, weights: Mapping[str, Floats], settings: Config, place: DistributedContext, *, recompute: bool
) -> ParallelModel:
    """A job's model with the weights of a file, divided as the settings say.

    In stage 3 each weight is divided as soon as it is read, so that no process ever holds the whole model.

    Raises:
        ConfigError: the device does not have the precision in this stage, or DeepSpeed does not take a value.
    """
    _join(place)
    stage = stage_of(settings)
    _check(settings, job.train.precision if stage else "fp32")
    model = build(job.model, job.train.task)
    names = weight_names(model, job.model, job.train.task)
    half = HALF_PRECISION.get(job.train.precision) if stage else None
    shapes = {own: tuple(model.get_parameter(own).shape) for own in sorted(set(names.values()))}
    load(model, names, weights, lambda tensor, _: tensor.to(dtype=half, copy=True), _divider(settings))
    every = {own: model.get_parameter(own) for own in shapes}
    trained = {name: weight for name, weight in every.items() if weight.requires_grad}
    fixed = {name: torch.from_numpy(weights[name]).clone() for name in every if name not in trained}
    if recompute:
        enable_gradient_checkpointing(model)
    trainee, optimizer = ModelWithLoss(model, job), adamw(trained, shapes, job.train.optimizer)
    engine, *_ = deepspeed.initialize(model=trainee, optimizer=optimizer, config=settings, dist_init_required=False)
    _clip_exactly(engine.optimizer)
    return ParallelModel(engine, stage, trainee, optimizer, trained, fixed, shapes)


def _join(place: DistributedContext) -> None:
    """Have DeepSpeed take the processes that have found each other already.

    On CPUs it would compile a kernel that only its inference takes, and need a C++ compiler for it.
    """
    if place.kind == "cpu":
        deepspeed.ops.__compatible_ops__[_ONLY_INFERENCE] = False
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)


def _check(settings: Config, precision: str) -> None:
    """Find before anything is made what no restart mends."""
    if precision in HALF_PRECISION and not getattr(get_accelerator(), f"is_{precision}_supported")():
        what, fix = f"DeepSpeed has no {precision} on this device but in stage 0", "another one, or stage = 0"
        raise ConfigError(what, where="train.precision", fix=fix)
    try:
        deepspeed.DeepSpeedConfig(deepcopy(settings))
    except ValueError as error:
        fix = "mend it; `--dry-run` shows all that DeepSpeed is told"
        raise ConfigError(f"DeepSpeed does not take this: {error}", where=f"{SECTION}.ds_config", fix=fix) from error


def _divider(settings: Config) -> Callable[[nn.Parameter], None]:
    """What is done with each weight as soon as it is read."""
    if stage_of(settings) < SHARDED_WEIGHTS_STAGE:
        return lambda weight: None

    def divide(weight: nn.Parameter) -> None:
        deepspeed.zero.Init(module=nn.ParameterList([weight]), config_dict_or_path=settings)

    return divide


def _clip_exactly(zero: Any) -> None:
    """Have it clip by the gradient's norm itself, as docs/training.md says.

    What it updates by in stage 1 and bf16 has no such function, and there 1e-6 is far below the arithmetic's rounding.
    """
    if clip := getattr(zero, "unscale_and_clip_grads", None):
        zero.unscale_and_clip_grads = lambda part, norm: clip(part, norm - _ADDED * zero.loss_scale)
