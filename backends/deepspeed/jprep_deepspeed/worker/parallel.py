"""DeepSpeed's engine around a job's model, with the mathematics of `docs/training.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from torch import Tensor, nn

from jprep.errors import ConfigError, MachineError
from jprep.io.safetensors_file import Floats, Shape
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_deepspeed.options import SECTION
from jprep_deepspeed.worker.sharded_muon import ShardedMuon
from jprep_deepspeed.worker.sharded_state import ShardedState
from jprep_deepspeed.worker.swapping import in_files
from jprep_torch.models.model_with_loss import ModelWithLoss
from jprep_torch.models.transformers_models import build_job_model, load_weights, weight_names
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.distributed.parallel_model import enable_gradient_checkpointing
from jprep_torch.worker.optimizer import make_optimizer

SHARDED_WEIGHTS_STAGE = 3
"""The stage in which weights are sharded."""

HALF_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}

_ADDED_TO_NORM = 1e-6  # by DeepSpeed, before it clips
_INFERENCE_ONLY = "deepspeed_shm_comm"

Config = dict[str, Any]
"""DeepSpeed's whole configuration."""


class ParallelModel(NamedTuple):
    """A model in DeepSpeed's engine.

    Attributes:
        engine: DeepSpeed's engine.
        stage: ZeRO stage; in stage 0 each process has everything.
        sharded: the fp32 weights and averages of stage 3.
        model: the model with its loss.
        optimizer: PyTorch's optimizer of the weights, or parts of weights, that this process updates.
        trained: trained weights by their names in files, sorted by name.
        fixed: weights that are not trained, in fp32.
        shapes: shapes of all whole weights, sorted by name.
    """

    engine: Any
    stage: int
    sharded: ShardedState | None
    model: ModelWithLoss
    optimizer: torch.optim.Optimizer
    trained: dict[str, nn.Parameter]
    fixed: dict[str, Tensor]
    shapes: dict[str, Shape]


def parallelize(
    job: Job,
    weights: Mapping[str, Floats],
    config: Config,
    context: DistributedContext,
    *,
    gradient_checkpointing: bool,
    hooks: LoadedHooks = NO_HOOKS,
) -> ParallelModel:
    """Return a job's model with the weights of a file, sharded as the configuration says.

    In stage 3 each weight is sharded as soon as it is read, so that no process ever holds the whole model.

    Args:
        job: the job.
        weights: weights under transformers' names.
        config: DeepSpeed's configuration.
        context: this process's device and rank.
        gradient_checkpointing: whether only the layers' inputs are kept for the backward pass.
        hooks: the job's hooks.

    Raises:
        ConfigError: the device does not support the precision in this stage, or DeepSpeed refuses a value.
    """
    _init_distributed(context)
    stage = _stage(config)
    _check(config, job.train.precision if stage else "fp32")
    model = build_job_model(job, hooks.head)
    names = weight_names(model, job.model, job.train.objective)
    dtype = HALF_PRECISION.get(job.train.precision) if stage else None
    shapes = {name: tuple(model.get_parameter(name).shape) for name in sorted(set(names.values()))}
    load_weights(model, names, weights, lambda tensor, _: tensor.to(dtype=dtype, copy=True), _sharder(config))
    by_name = {name: model.get_parameter(name) for name in shapes}
    trained = {name: weight for name, weight in by_name.items() if weight.requires_grad}
    fixed = {name: torch.from_numpy(weights[name]).clone() for name in by_name if name not in trained}
    if gradient_checkpointing:
        enable_gradient_checkpointing(model)
    module, optimizer = ModelWithLoss(model, job, hooks), _make_optimizer(trained, shapes, job.train.optimizer, stage)
    engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=config, dist_init_required=False)
    _clip_exactly(engine.optimizer)
    if isinstance(optimizer, ShardedMuon):
        optimizer.find_matrices(engine.optimizer)
    sharded = ShardedState(engine.optimizer) if stage == SHARDED_WEIGHTS_STAGE else None
    return ParallelModel(engine, stage, sharded, module, optimizer, trained, fixed, shapes)


def _make_optimizer(
    weights: Mapping[str, nn.Parameter], shapes: Mapping[str, Shape], section: OptimizerConfig, stage: int
) -> torch.optim.Optimizer:
    if stage and section.kind == "muon":
        return ShardedMuon(weights, shapes, section)
    return make_optimizer(weights, shapes, section)


def _stage(config: Config) -> int:
    return int(config.get("zero_optimization", {}).get("stage", 0))


def _init_distributed(context: DistributedContext) -> None:
    """Make DeepSpeed use the existing process group.

    On CPUs it would compile a kernel for inference, for which it needs a C++ compiler.
    """
    if context.kind == "cpu":
        deepspeed.ops.__compatible_ops__[_INFERENCE_ONLY] = False
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)


def _check(config: Config, precision: str) -> None:
    """Check what no restart can fix, before the model is built."""
    if precision in HALF_PRECISION and not getattr(get_accelerator(), f"is_{precision}_supported")():
        what = f"DeepSpeed supports {precision} on this device in stage 0 only"
        raise ConfigError(what, where="train.precision", fix="use another precision, or stage = 0")
    if in_files(config) and not get_accelerator().create_op_builder("AsyncIOBuilder").is_compatible():
        what = "DeepSpeed cannot keep the optimizer state in files here: libaio's headers or a C++ compiler are missing"
        fix = 'install them (Debian: apt install libaio-dev g++), or set offload_optimizer = "cpu"'
        raise MachineError(what, where=f"{SECTION}.offload_optimizer", fix=fix)
    try:
        deepspeed.DeepSpeedConfig(deepcopy(config))
    except ValueError as error:
        fix = "correct the value; `--dry-run` shows the whole configuration"
        what = f"DeepSpeed refuses the configuration: {error}"
        raise ConfigError(what, where=f"{SECTION}.ds_config", fix=fix) from error


def _sharder(config: Config) -> Callable[[nn.Parameter], None]:
    """Return a function that shards a weight after it is read, in stages that shard weights."""
    if _stage(config) < SHARDED_WEIGHTS_STAGE:
        return lambda weight: None

    def shard(weight: nn.Parameter) -> None:
        deepspeed.zero.Init(module=nn.ParameterList([weight]), config_dict_or_path=config)

    return shard


def _clip_exactly(zero: Any) -> None:
    """Make DeepSpeed clip by the norm itself, as `docs/training.md` says, and not by the norm + 1e-6.

    The optimizer of stage 1 in bf16 has no such function; there 1e-6 is far below the rounding error.
    """
    if clip := getattr(zero, "unscale_and_clip_grads", None):
        zero.unscale_and_clip_grads = lambda part, norm: clip(part, norm - _ADDED_TO_NORM * zero.loss_scale)
