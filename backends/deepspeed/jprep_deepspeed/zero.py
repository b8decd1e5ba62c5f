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
from jprep.train.job import Job
from jprep.train.tensor_file import Floats, Shape
from jprep_deepspeed.options import WHERE
from jprep_torch.devices import Place
from jprep_torch.heads import Trainee
from jprep_torch.models import build, load, names_of
from jprep_torch.spreading import recomputed
from jprep_torch.update import adamw

DIVIDED = 3
"""The stage in which weights themselves are divided among the processes."""

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}

_ADDED = 1e-6  # to the gradient's norm, by DeepSpeed, before it clips
_ONLY_INFERENCE = "deepspeed_shm_comm"

Settings = dict[str, Any]
"""DeepSpeed's configuration, whole."""


class Zero(NamedTuple):
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
    trainee: Trainee
    optimizer: torch.optim.Optimizer
    trained: dict[str, nn.Parameter]
    fixed: dict[str, Tensor]
    shapes: dict[str, Shape]


def stage_of(settings: Settings) -> int:
    """ZeRO's stage."""
    return int(settings.get("zero_optimization", {}).get("stage", 0))


def divide_model(job: Job, weights: Mapping[str, Floats], settings: Settings, place: Place, *, recompute: bool) -> Zero:
    """A job's model with the weights of a file, divided as the settings say.

    In stage 3 each weight is divided as soon as it is read, so that no process ever holds the whole model.

    Raises:
        ConfigError: the device does not have the precision in this stage, or DeepSpeed does not take a value.
    """
    _join(place)
    stage = stage_of(settings)
    _check(settings, job.train.precision if stage else "fp32")
    model = build(job.model, job.train.task)
    names = names_of(model, job.model, job.train.task)
    half = HALF.get(job.train.precision) if stage else None
    shapes = {own: tuple(model.get_parameter(own).shape) for own in sorted(set(names.values()))}
    load(model, names, weights, lambda tensor, _: tensor.to(dtype=half, copy=True), _divider(settings))
    every = {own: model.get_parameter(own) for own in shapes}
    trained = {name: weight for name, weight in every.items() if weight.requires_grad}
    fixed = {name: torch.from_numpy(weights[name]).clone() for name in every if name not in trained}
    if recompute:
        recomputed(model)
    trainee, optimizer = Trainee(model, job), adamw(trained, shapes, job.train.optimizer)
    engine, *_ = deepspeed.initialize(model=trainee, optimizer=optimizer, config=settings, dist_init_required=False)
    _clip_exactly(engine.optimizer)
    return Zero(engine, stage, trainee, optimizer, trained, fixed, shapes)


def _join(place: Place) -> None:
    """Have DeepSpeed take the processes that have found each other already.

    On CPUs it would compile a kernel that only its inference takes, and need a C++ compiler for it.
    """
    if place.kind == "cpu":
        deepspeed.ops.__compatible_ops__[_ONLY_INFERENCE] = False
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)


def _check(settings: Settings, precision: str) -> None:
    """Find before anything is made what no restart mends."""
    if precision in HALF and not getattr(get_accelerator(), f"is_{precision}_supported")():
        what, fix = f"DeepSpeed has no {precision} on this device but in stage 0", "another one, or stage = 0"
        raise ConfigError(what, where="train.precision", fix=fix)
    try:
        deepspeed.DeepSpeedConfig(deepcopy(settings))
    except ValueError as error:
        fix = "mend it; `--dry-run` shows all that DeepSpeed is told"
        raise ConfigError(f"DeepSpeed does not take this: {error}", where=f"{WHERE}.ds_config", fix=fix) from error


def _divider(settings: Settings) -> Callable[[nn.Parameter], None]:
    """What is done with each weight as soon as it is read."""
    if stage_of(settings) < DIVIDED:
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
