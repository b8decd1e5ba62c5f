"""A checkpoint's files: each process gathers every tensor, and writes some of them."""

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
from jprep_torch.worker.distributed import DistributedContext

_KEPT = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(folder: Path, zero: ParallelModel, progress: TrainProgress, place: DistributedContext) -> None:
    """Fill a checkpoint's folder. Each process takes part."""
    _write(folder, WEIGHTS, zero.shapes, lambda name: _weight(zero, name), place)
    kept = average_shapes(zero.shapes, zero.trained)
    _write(folder, OPTIMIZER, kept, lambda name: _average(zero, name), place)
    if not place.rank:
        write_progress(folder, progress)


@torch.no_grad()
def restore(zero: ParallelModel, weights: Mapping[str, Floats], kept: Mapping[str, Floats], updates: int) -> None:
    """Give DeepSpeed's optimizer its weights in fp32 and its averages.

    Args:
        zero: the model, its weights loaded, perhaps in half precision.
        weights: the same in fp32.
        kept: AdamW's averages, `m.NAME` and `v.NAME`; empty for zeros.
        updates: how many the averages have seen.
    """
    for part in _updated_here(zero):
        state = {key: torch.zeros_like(part) for key in _KEPT.values()}
        zero.optimizer.state[part] = {"step": torch.tensor(float(updates), device=part.device), **state}
    if 0 < zero.stage < SHARDED_WEIGHTS_STAGE:
        zero.engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, weight in zero.trained.items():
        if zero.stage:
            _set(zero, weight, None, weights[name])
        for mark, key in _KEPT.items():
            if kept:
                _set(zero, weight, key, kept[f"{mark}.{name}"])


def _updated_here(zero: ParallelModel) -> list[Tensor]:
    """What PyTorch's optimizer updates on this process: weights, or its parts of them, end to end."""
    if zero.stage == SHARDED_WEIGHTS_STAGE:
        parts: list[Tensor] = zero.engine.optimizer.fp32_partitioned_groups_flat
        return parts
    return [weight for group in zero.optimizer.param_groups for weight in group["params"]]


def _set(zero: ParallelModel, weight: Any, key: str | None, values: Floats) -> None:
    """Copy this process's part of a weight in fp32, or of one of its averages."""
    whole = torch.from_numpy(values).flatten()
    if not zero.stage:
        zero.optimizer.state[weight][key].view(-1).copy_(whole)
        return
    if zero.stage < SHARDED_WEIGHTS_STAGE:
        weight.set_full_hp_param(whole, key)
        return
    part, _ = zero.engine.optimizer._get_fp32_opt_state_partition(weight, False, key)
    start = part.numel() * zero.engine.global_rank
    mine = whole[start : start + part.numel()]
    part[: len(mine)].copy_(mine)


def _weight(zero: ParallelModel, name: str) -> Tensor:
    """A weight, whole and in fp32. Each process asks for it."""
    if name in zero.fixed:
        return zero.fixed[name]
    weight = zero.trained[name]
    return _gathered(safe_get_full_fp32_param(weight)) if zero.stage else weight.detach()


def _average(zero: ParallelModel, name: str) -> Tensor:
    mark, _, own = name.partition(".")
    weight, key = zero.trained[own], _KEPT[mark]
    return _gathered(safe_get_full_optimizer_state(weight, key)) if zero.stage else zero.optimizer.state[weight][key]


def _gathered(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "DeepSpeed knows nothing of a weight that it trains"
    return tensor.detach()


def _write(
    folder: Path, kind: str, shapes: Mapping[str, Shape], tensor: Callable[[str], Tensor], place: DistributedContext
) -> None:
    """Gather tensor by tensor, in one order on all processes; write one's own as they come."""
    coming = iter(shapes)

    def blocks(name: str) -> Iterator[Floats]:
        for each in coming:
            found = tensor(each)
            if each == name:
                yield found.float().cpu().numpy()
                return

    write_part(folder, kind, tensors_of_part(shapes, place.rank, place.world), blocks, place.rank, place.world)
    for each in coming:
        tensor(each)
