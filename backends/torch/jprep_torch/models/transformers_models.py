"""Models of transformers and of plugins, created without storage for weights and loaded from safetensors files."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import masking_utils

from jprep.io.safetensors_file import Floats
from jprep.train.hooks.loading import Hook
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.models.electra import half_config
from jprep.train.models.registry import is_plugin_model
from jprep.train.models.weights import HEAD_PARAMETERS
from jprep_torch.models.cpu_dropout import use_fast_dropout
from jprep_torch.models.custom_head import ModelWithHead
from jprep_torch.models.expert_weights import model_name, read_weight
from jprep_torch.models.plugin_model import PluginModel, check_weights


def _hides_nothing(mask: Tensor | None, positions: int, window: int | None = None) -> bool:
    return mask is None and (window is None or positions < window)


_masking_utils: Any = masking_utils
# transformers looks for documents in the positions of each row, and whether a mask hides anything: both wait for the
# device, and compiled programs would compute a mask of all positions. Here a mask is given only if it hides something.
_masking_utils.find_packed_sequence_indices = lambda position_ids: None
_masking_utils._ignore_bidirectional_mask_sdpa = _hides_nothing

PutTensor = Callable[[Tensor, Tensor], Tensor]
"""Moves a tensor that was read to the place of the model's empty one."""


def build_model(config: dict[str, Any], task: str, head: Hook | None = None) -> nn.Module:
    """Return the model for a task; its weights are on the device `meta`, its buffers are initialized.

    Args:
        config: the config of the job's model.
        task: the job's task. For `rtd` the model is the discriminator, with the generator as its `generator`.
        head: the class of a user's head; None for transformers' own.
    """
    with _weights_on_meta():
        model = _electra(config) if task == "rtd" else _empty_model(config, task)
        model = ModelWithHead(model, head) if head else model
    if is_plugin_model(config):
        check_weights(model, config, task)
    _fuse_gelu(model)
    for name, tensor in parameters(config, task).items():
        if not tensor.trained:
            model.get_parameter(name).requires_grad_(False)
    return model


def build_job_model(job: Job, head: Hook | None = None) -> nn.Module:
    """Return the model that a job trains, from `build_model`, with the masks of dropout that its run has."""
    model = build_model(job.model, job.train.objective, head)
    if job.dropout_masks > 1:
        use_fast_dropout(model)
    return model


def _empty_model(config: dict[str, Any], task: str) -> nn.Module:
    if is_plugin_model(config):
        return PluginModel(config, task)
    [name] = config["architectures"]
    # transformers changes tables that it is given, such as rope_scaling.
    plain = copy.deepcopy({key: value for key, value in config.items() if key != HEAD_PARAMETERS})
    settings = transformers.AutoConfig.for_model(**{**plain, "use_cache": False})
    model: nn.Module = getattr(transformers, name)(settings)
    return model


def _electra(config: dict[str, Any]) -> nn.Module:
    """Return a discriminator and its generator, which share the module of the embeddings."""
    model, generator = (_empty_model(half_config(config, half), "rtd") for half in ("discriminator", "generator"))
    generator.electra.embeddings = model.electra.embeddings
    generator.generator_lm_head.weight = model.electra.embeddings.word_embeddings.weight
    model.generator = generator
    return model


def load_weights(
    model: nn.Module,
    names: dict[str, str],
    weights: Mapping[str, Floats],
    put: PutTensor,
    loaded: Callable[[nn.Parameter], None] = lambda weight: None,
) -> None:
    """Load a model's weights, one at a time.

    Args:
        model: from `build_model`, possibly sharded since.
        names: from `weight_names`, before the model was sharded.
        weights: weights by their names in files.
        put: moves a tensor to the device.
        loaded: called with each weight after it is loaded.
    """
    found: dict[str, nn.Parameter] = {}
    empty = dict(model.named_parameters(remove_duplicate=False))
    for name, file_name in names.items():
        if file_name not in found:
            tensor = put(torch.from_numpy(read_weight(weights, file_name)), empty[name])
            found[file_name] = nn.Parameter(tensor, requires_grad=empty[name].requires_grad)
            loaded(found[file_name])
        module, _, key = name.rpartition(".")
        setattr(model.get_submodule(module), key, found[file_name])  # one object for tied weights keeps them tied


def weight_names(model: nn.Module, config: dict[str, Any], task: str) -> dict[str, str]:
    """Return the name in files of each weight of a model; tied weights have the same.

    Experts that the model has as one weight keep its name: see `jprep_torch.models.expert_weights`.

    Args:
        model: from `build_model`.
        config: transformers' config.
        task: the job's task.
    """
    in_files = {each for name in parameters(config, task) for each in (name, model_name(name))}
    owners = {id(weight): name for name, weight in model.named_parameters(remove_duplicate=False) if name in in_files}
    return {name: owners[id(weight)] for name, weight in model.named_parameters(remove_duplicate=False)}


@contextlib.contextmanager
def _weights_on_meta() -> Iterator[None]:
    """Create weights on the device `meta`, without storage, and buffers, which no file holds, as usual."""
    register = nn.Module.register_parameter

    def register_on_meta(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta:
            weight = nn.Parameter(weight.to("meta"), requires_grad=weight.requires_grad)
        register(module, name, weight)

    nn.Module.register_parameter = register_on_meta  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _fuse_gelu(model: nn.Module) -> None:
    """Replace GPT-2's `gelu_new`, which transformers computes in eight operations, by PyTorch's kernel of the same."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child).__name__ == "NewGELUActivation":
                setattr(module, name, nn.GELU(approximate="tanh"))
