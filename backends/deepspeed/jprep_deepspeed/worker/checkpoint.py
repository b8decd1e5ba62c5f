"""A checkpoint (`jprep.train.run.checkpoint_files`): each process gathers all tensors, and writes some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from torch import Tensor

from jprep.io.safetensors_file import Floats, Shape
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    TrainProgress,
    average_shapes,
    tensors_of_part,
    write_part,
    write_progress,
)
from jprep_deepspeed.worker.parallel import SHARDED_WEIGHTS_STAGE, ParallelModel
from jprep_torch.worker.distributed.context import DistributedContext

_STATE_KEYS = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(folder: Path, model: ParallelModel, progress: TrainProgress, context: DistributedContext) -> None:
    """Write a checkpoint. Each process takes part.

    Args:
        folder: the directory, which exists.
        model: the model and its optimizer.
        progress: number of updates and the loss scale.
        context: this process's device and rank.
    """
    _write(folder, WEIGHTS, model.shapes, lambda name: _whole_weight(model, name), context)
    shapes = average_shapes(model.shapes, model.trained)
    _write(folder, OPTIMIZER, shapes, lambda name: _whole_average(model, name), context)
    if not context.rank:
        write_progress(folder, progress)


@torch.no_grad()
def restore(model: ParallelModel, weights: Mapping[str, Floats], saved: Mapping[str, Floats], updates: int) -> None:
    """Set the fp32 weights and the averages of DeepSpeed's optimizer.

    Args:
        model: the model with its weights, possibly in half precision.
        weights: the weights in fp32.
        saved: AdamW's averages, `m.NAME` and `v.NAME`; empty for zeros.
        updates: number of updates so far.
    """
    for part in _local_parts(model):
        state = {key: torch.zeros_like(part) for key in _STATE_KEYS.values()}
        model.optimizer.state[part] = {"step": torch.tensor(float(updates), device=part.device), **state}
    if 0 < model.stage < SHARDED_WEIGHTS_STAGE:
        model.engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, weight in model.trained.items():
        if model.stage:
            _set(model, weight, None, weights[name])
        for mark, key in _STATE_KEYS.items():
            if saved:
                _set(model, weight, key, saved[f"{mark}.{name}"])


def _local_parts(model: ParallelModel) -> list[Tensor]:
    """Return the tensors that PyTorch's optimizer updates in this process: weights, or concatenated parts of them."""
    if model.stage == SHARDED_WEIGHTS_STAGE:
        parts: list[Tensor] = model.engine.optimizer.fp32_partitioned_groups_flat
        return parts
    return [weight for group in model.optimizer.param_groups for weight in group["params"]]


def _set(model: ParallelModel, weight: Any, key: str | None, values: Floats) -> None:
    """Set this process's part of a weight in fp32, or of one of its averages.

    Args:
        model: the model.
        weight: the weight.
        key: of the average in the optimizer's state; None for the weight.
        values: the whole tensor.
    """
    whole = torch.from_numpy(values).flatten()
    if not model.stage:
        model.optimizer.state[weight][key].view(-1).copy_(whole)
        return
    if model.stage < SHARDED_WEIGHTS_STAGE:
        weight.set_full_hp_param(whole, key)
        return
    part, _ = model.engine.optimizer._get_fp32_opt_state_partition(weight, False, key)
    start = part.numel() * model.engine.global_rank
    own = whole[start : start + part.numel()]
    part[: len(own)].copy_(own)


def _whole_weight(model: ParallelModel, name: str) -> Tensor:
    """Return a whole weight in fp32. Each process must call it."""
    if name in model.fixed:
        return model.fixed[name]
    weight = model.trained[name]
    return _gathered(safe_get_full_fp32_param(weight)) if model.stage else weight.detach()


def _whole_average(model: ParallelModel, name: str) -> Tensor:
    """Return a whole average by its name in the file, `m.NAME` or `v.NAME`. Each process must call it."""
    mark, _, weight_name = name.partition(".")
    weight, key = model.trained[weight_name], _STATE_KEYS[mark]
    if not model.stage:
        return model.optimizer.state[weight][key]
    return _gathered(safe_get_full_optimizer_state(weight, key))


def _gathered(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "DeepSpeed does not know a weight that it trains"
    return tensor.detach()


def _write(
    folder: Path, kind: str, shapes: Mapping[str, Shape], tensor: Callable[[str], Tensor], context: DistributedContext
) -> None:
    """Gather all tensors in the same order on each process, and write those of this process as they come.

    Args:
        folder: the checkpoint's directory.
        kind: kind of the file.
        shapes: shapes of all tensors.
        tensor: gathers a tensor by its name.
        context: this process's device and rank.
    """
    names = iter(shapes)

    def blocks(wanted: str) -> Iterator[Floats]:
        for name in names:
            found = tensor(name)
            if name == wanted:
                yield found.float().cpu().numpy()
                return

    own = tensors_of_part(shapes, context.rank, context.world)
    write_part(folder, kind, own, blocks, context.rank, context.world)
    for name in names:
        tensor(name)
