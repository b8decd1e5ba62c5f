"""transformers' models: built without a second copy of their weights, and loaded from a run's files of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from jprep.io.safetensors_file import Floats
from jprep.train.models import FAMILIES, parameters

PutTensor = Callable[[Tensor, Tensor], Tensor]
"""Brings a tensor that was read to where the model's (empty) one is to be."""


def build(config: dict[str, Any], task: str) -> nn.Module:
    """The class that serves a task, its weights without storage (`meta`), its constants in place."""
    kind = config["model_type"]
    settings = transformers.AutoConfig.for_model(**{**config, "use_cache": False})
    with _weightless():
        model: nn.Module = getattr(transformers, FAMILIES[kind].classes[task])(settings)
    _fuse_gelu(model)
    for name, tensor in parameters(config, task).items():
        model.get_parameter(name).requires_grad_(tensor.trained)
    return model


def load(
    model: nn.Module,
    names: dict[str, str],
    weights: Mapping[str, Floats],
    place: PutTensor,
    made: Callable[[nn.Parameter], None] = lambda weight: None,
) -> None:
    """Give a model its weights; each is read when its turn comes.

    Args:
        model: from `build`, perhaps sharded since.
        names: from `weight_names`, before anything was sharded.
        weights: by transformers' names, as `jprep.io.safetensors_file.TensorFiles` has them.
        place: where a tensor goes.
        made: is given each weight as soon as it stands.
    """
    loaded: dict[str, nn.Parameter] = {}
    empty = dict(model.named_parameters(remove_duplicate=False))
    for name, own in names.items():
        if own not in loaded:
            tensor = place(torch.from_numpy(weights[own]), empty[name])
            loaded[own] = nn.Parameter(tensor, requires_grad=empty[name].requires_grad)
            made(loaded[own])
        module, _, key = name.rpartition(".")
        setattr(model.get_submodule(module), key, loaded[own])  # tied weights get the same object, so they stay tied


def weight_names(model: nn.Module, config: dict[str, Any], task: str) -> dict[str, str]:
    """Every name of a weight in the model → the name that files have it under: tied weights share one."""
    ours = parameters(config, task)
    owners = {id(weight): name for name, weight in model.named_parameters(remove_duplicate=False) if name in ours}
    return {name: owners[id(weight)] for name, weight in model.named_parameters(remove_duplicate=False)}


@contextlib.contextmanager
def _weightless() -> Iterator[None]:
    """Weights that are made have no storage; constants, which no file holds, are made as ever."""
    register = nn.Module.register_parameter

    def bare(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta:
            weight = nn.Parameter(weight.to("meta"), requires_grad=weight.requires_grad)
        register(module, name, weight)

    nn.Module.register_parameter = bare  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _fuse_gelu(model: nn.Module) -> None:
    """GPT-2's `gelu_new` is GELU by tanh, which PyTorch has in one kernel; transformers makes it of eight."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child).__name__ == "NewGELUActivation":
                setattr(module, name, nn.GELU(approximate="tanh"))
