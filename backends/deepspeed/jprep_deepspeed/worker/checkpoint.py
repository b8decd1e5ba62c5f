"""A checkpoint (`jprep.train.run.checkpoint_files`): each process gathers all tensors, and writes some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from torch import Tensor

from jprep.io.safetensors_file import Floats
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointPart,
    TrainProgress,
    tensors_of_part,
    write_part,
    write_progress,
)
from jprep_deepspeed.worker.parallel import ParallelModel
from jprep_deepspeed.worker.sharded_state import ShardedState
from jprep_torch.models.expert_weights import FileTensors, read_weight
from jprep_torch.worker.distributed.context import DistributedContext
from jprep_torch.worker.optimizer import shapes_of_averages
from jprep_torch.worker.update_rules.muon import MOMENTUM

_STATE_KEYS = {"m": "exp_avg", "v": "exp_avg_sq"}


def save(folder: Path, model: ParallelModel, progress: TrainProgress, context: DistributedContext) -> None:
    """Write a checkpoint. Each process takes part.

    Args:
        folder: the directory, which exists.
        model: the model and its optimizer.
        progress: number of updates and the loss scale.
        context: this process's device and rank.
    """
    for kind, tensors in _tensors(model).items():
        _write(folder, kind, tensors, context)
    if model.sharded:
        model.sharded.release()
    if not context.rank:
        write_progress(folder, progress)


def take_snapshot(model: ParallelModel, progress: TrainProgress, context: DistributedContext) -> CheckpointPart:
    """Return the tensors that this process writes, copied from a GPU. Each process takes part; see `save`."""
    found = _tensors(model)
    own = {kind: dict(_own_arrays(tensors, context)) for kind, tensors in found.items()}
    if model.sharded:
        model.sharded.release()
    shapes = found[WEIGHTS].shapes, found[OPTIMIZER].shapes
    return CheckpointPart(own[WEIGHTS], own[OPTIMIZER], shapes, progress, context.rank, context.world)


def _tensors(model: ParallelModel) -> dict[str, FileTensors]:
    """Return the tensors of a checkpoint by the kind of their file."""
    shapes = shapes_of_averages(model.optimizer, model.shapes, model.trained)
    return {
        WEIGHTS: FileTensors(model.shapes, lambda name: _whole_weight(model, name)),
        OPTIMIZER: FileTensors(shapes, lambda name: _whole_average(model, name)),
    }


@torch.no_grad()
def restore(model: ParallelModel, weights: Mapping[str, Floats], saved: Mapping[str, Floats], updates: int) -> None:
    """Set the fp32 weights and the averages of DeepSpeed's optimizer.

    Args:
        model: the model with its weights, possibly in half precision.
        weights: the weights in fp32.
        saved: AdamW's averages, `m.NAME` and `v.NAME`, and Muon's momentum, `m.NAME`; empty for zeros.
        updates: number of updates so far.
    """
    if model.sharded:
        _restore_groups(model, model.sharded, weights, saved, updates)
        return
    for group in model.optimizer.param_groups:
        for part in group["params"]:
            _set_averages_to_zero(model, part, group, updates)
    if model.stage:
        model.engine.optimizer._lazy_init_hp_params_optimizer_state()
    _set_all(model, model.trained, weights, saved)


def _restore_groups(
    model: ParallelModel,
    sharded: ShardedState,
    weights: Mapping[str, Floats],
    saved: Mapping[str, Floats],
    updates: int,
) -> None:
    """Restore stage 3, one group of weights after the other, as files may hold the others."""

    def group_of(name: str) -> int:
        return sharded.group(model.trained[name])

    for group, names in groupby(sorted(model.trained, key=group_of), key=group_of):
        part, options = sharded.hold(group, change=True), sharded.options(group)
        _set_averages_to_zero(model, part, options, updates)
        _set_all(model, names, weights, saved)
    sharded.release()


def _set_averages_to_zero(model: ParallelModel, part: Tensor, group: Mapping[str, Any], updates: int) -> None:
    """Set the state of a tensor that PyTorch's optimizer updates in this process, in one of its groups."""
    keys = [MOMENTUM] if group.get("muon") else _STATE_KEYS.values()
    state = {key: torch.zeros_like(part) for key in keys}
    model.optimizer.state[part] = {"step": torch.tensor(float(updates), device=part.device), **state}


def _set_all(
    model: ParallelModel, names: Iterable[str], weights: Mapping[str, Floats], saved: Mapping[str, Floats]
) -> None:
    for name in names:
        weight = model.trained[name]
        if model.stage:
            _set(model, weight, None, read_weight(weights, name))
        for average in shapes_of_averages(model.optimizer, model.shapes, [name] if saved else []):
            _set(model, weight, _STATE_KEYS[average[0]], read_weight(saved, average))


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
    if not model.sharded:
        weight.set_full_hp_param(whole, key)
        return
    own = model.sharded.own_range(weight)
    model.sharded.part(weight, key, change=True)[: own.size].copy_(whole[own.in_weight])


def _whole_weight(model: ParallelModel, name: str) -> Tensor:
    """Return a whole weight in fp32. Each process must call it."""
    if name in model.fixed:
        return model.fixed[name]
    weight = model.trained[name]
    if model.sharded:
        return model.sharded.whole(weight, None)
    return _gathered(safe_get_full_fp32_param(weight)) if model.stage else weight.detach()


def _whole_average(model: ParallelModel, name: str) -> Tensor:
    """Return a whole average by its name, `m.NAME` or `v.NAME`. Each process must call it."""
    mark, _, weight_name = name.partition(".")
    weight, key = model.trained[weight_name], _STATE_KEYS[mark]
    if model.sharded:
        return model.sharded.whole(weight, key)
    if not model.stage:
        return model.optimizer.state[weight][key]
    return _gathered(safe_get_full_optimizer_state(weight, key))


def _gathered(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "DeepSpeed does not know a weight that it trains"
    return tensor.detach()


def _own_arrays(tensors: FileTensors, context: DistributedContext) -> Iterator[tuple[str, Floats]]:
    """Gather all tensors in the same order on each process, and yield those that this process writes.

    Args:
        tensors: all tensors of the files.
        context: this process's device and rank.
    """
    own = tensors_of_part(tensors.shapes, context.rank, context.world)
    for name in tensors:
        found = tensors[name]
        if name in own:
            yield name, found.float().cpu().numpy()


def _write(folder: Path, kind: str, tensors: FileTensors, context: DistributedContext) -> None:
    """Write the tensors of this process as they are gathered, one at a time."""
    gathered = _own_arrays(tensors, context)

    def blocks(wanted: str) -> Iterator[Floats]:
        name, array = next(gathered)
        assert name == wanted, f"{wanted} is written when {name} is gathered"
        yield array

    own = tensors_of_part(tensors.shapes, context.rank, context.world)
    write_part(folder, kind, own, blocks, context.rank, context.world)
    for _ in gathered:  # what other processes write is gathered here, too
        pass
