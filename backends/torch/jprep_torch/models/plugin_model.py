"""A plugin's model in PyTorch with jprep's heads, in the form of a model of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jprep.errors import ConfigError
from jprep.plugins.manager import load_class
from jprep.train.hooks.calls import head_config
from jprep.train.models import FAMILIES, parameters
from jprep.train.models.plugin_family import EMBEDDING
from jprep.train.models.registry import check_version

FRAMEWORK = "torch"


class Outputs(NamedTuple):
    """What a model returns, by transformers' names.

    Attributes:
        logits: of tokens, (rows, length, ids), or of rows, (rows, labels).
        past_key_values: always None: a plugin's model computes a row from its beginning.
    """

    logits: Tensor
    past_key_values: None = None


class PluginModel(nn.Module):
    """A plugin's model with a head.

    The plugin's class is a module. `Model(config, ids)` creates it from the family's `Config` and the rows of the token
    embedding; weights have the names and shapes of `Family.weights`. Its layers are the `nn.ModuleList` `layers`: they
    are sharded and recomputed one by one. `forward(ids, mask, documents)` returns hidden states, (rows, length, width).
    `ids` are int64, (rows, length); `mask` is 1 for tokens and 0 for padding, which is at the end of a row, or None if
    no row has any; `documents` numbers the document of each token, (rows, length), or is None if rows are whole.

    Args:
        config: the config of the job's model.
        task: the task.

    Attributes:
        model: the plugin's model.
        config: the values of the config, `num_labels` and `to_dict`.
    """

    base_model_prefix = "model"

    def __init__(self, config: dict[str, Any], task: str) -> None:
        super().__init__()
        self.causal, self.config = FAMILIES[config["model_type"]].causal, model_settings(config)
        self.model = _plugin_module(config)
        width = config["hidden_size"]
        if task in ("clm", "mlm"):
            self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)
            if config["tie_word_embeddings"]:
                self.lm_head.weight = self.model.get_parameter(EMBEDDING)
        else:
            self.score = nn.Linear(width, self.config.num_labels, bias=False)

    @property
    def base_model(self) -> nn.Module:
        """The plugin's model."""
        return self.model

    def gradient_checkpointing_enable(self, settings: dict[str, Any]) -> None:
        """Keep only the inputs of layers for the backward pass."""
        recompute_layers(self.model, settings)

    def forward(self, input_ids: Tensor, past_key_values: None = None, use_cache: bool = False) -> Outputs:
        """Return the logits of tokens or rows without padding.

        Args:
            input_ids: int64, (rows, length).
            past_key_values, use_cache: have no effect.
        """
        hidden: Tensor = self.model(input_ids, None, None)
        if hasattr(self, "lm_head"):
            return Outputs(self.lm_head(hidden))
        return Outputs(self.score(hidden[:, -1 if self.causal else 0]))

    @property
    def device(self) -> Any:
        """The device of the weights."""
        return next(self.parameters()).device


def model_settings(config: dict[str, Any]) -> Any:
    """Return a model's config with values as attributes, as a head gets it, and with `to_dict`."""
    settings = head_config({"id2label": {}} | config)
    settings.to_dict = lambda: config
    return settings


def recompute_layers(model: nn.Module, settings: dict[str, Any]) -> None:
    """Make the layers of a plugin's model keep only their inputs for the backward pass.

    Args:
        model: the plugin's model.
        settings: arguments of `torch.utils.checkpoint.checkpoint`.
    """
    layers: Any = model.layers
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, **settings)


def check_weights(model: nn.Module, config: dict[str, Any], task: str) -> None:
    """Check that a model has the weights that its family names, before any is loaded.

    Args:
        model: the whole model.
        config: the config of the job's model.
        task: the job's task.

    Raises:
        ConfigError: one is missing, unknown or of another shape, or the model has a state that no file holds.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in parameters(config, task).items()}
    found = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            what = f"has the weight {name!r} {_shape(found.get(name))}, and the family {_shape(wanted.get(name))}"
            raise _faulty(config, what, "correct `weights` or the model")
    kept = {name for name, value in model.state_dict(keep_vars=True).items() if not isinstance(value, nn.Parameter)}
    if kept:
        fix = "use a parameter, or register_buffer(…, persistent=False) for a constant"
        raise _faulty(config, f"has the buffer {min(kept)!r}, and checkpoints hold parameters only", fix)


def _plugin_module(config: dict[str, Any]) -> nn.Module:
    kind = config["model_type"]
    family = FAMILIES[kind]
    check_version(config, family, kind)
    if family.plugin is None or FRAMEWORK not in family.plugin.models:
        fix = "use a backend that the family has a model for, e.g. --backend flax"
        raise ConfigError(f"the model family {kind!r} has no PyTorch model", where=kind, fix=fix)
    model = load_class(family.plugin.models[FRAMEWORK])(family.plugin.read_config(config), config["vocab_size"])
    if not isinstance(model, nn.Module) or not isinstance(getattr(model, "layers", None), nn.ModuleList):
        raise _faulty(config, "has no nn.ModuleList `layers`", "hold the layers in self.layers = nn.ModuleList(…)")
    return model


def _shape(shape: Sequence[int] | None) -> str:
    return "not at all" if shape is None else f"as {tuple(shape)}"


def _faulty(config: dict[str, Any], what: str, fix: str) -> ConfigError:
    kind = config["model_type"]
    return ConfigError(f"the PyTorch model of the family {kind!r} {what}", where=f"model_type {kind}", fix=fix)
