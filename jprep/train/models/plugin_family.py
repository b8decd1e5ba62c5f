"""The base class of model families that plugins bring. docs/guides/write-a-model-family.md has a complete example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from jprep.config import ConfigSection, parse_config
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.train.models.weights.specs import TensorSpecs

EMBEDDING = "embed_tokens.weight"
"""The name of the token embedding in every family."""

FEATURES = ("document_masks", "xla", "tensor")
"""What a family may declare: its models keep the documents of a row apart; its PyTorch model has fixed shapes, so that
XLA can compile it; its Flax model's weights can be sharded along the mesh's axis `tensor`."""

_LAYER, _ATTENTION = 32, 12  # of a gated decoder: see `jprep.train.models.memory` and `flops`


class FamilyConfig(ConfigSection, frozen=True):
    """The keys of `[train.model.config]` that every family has. A family adds its own, each with a default.

    Attributes:
        hidden_size: the width of hidden states.
        num_hidden_layers: the number of layers.
        max_position_embeddings: tokens in the longest input; raised to the length of the job's rows.
        initializer_range: the standard deviation of the initial weights of the heads.
        tie_word_embeddings: whether the output projection is the token embedding.
    """

    hidden_size: int = 768
    num_hidden_layers: int = 12
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True


class Family(ABC):
    """A model family: its config, the names and shapes of its weights, and the classes that compute it.

    A family has the part of a model that all tasks share: it maps ids to the hidden states that the output projection
    gets. jprep adds the heads: `lm_head` for `clm` and `mlm`, unless it is tied, and `score` for `classify` and
    `regress`, on the last token of causal families and on the first one of others. In files, weights have the names of
    `weights` after the prefix `model.`.

    A family is created without arguments and imports no framework.

    Attributes:
        name: the name it is registered by, and its `model_type`.
        version: raised when the same weights would give other outputs, or when weights get other names or shapes. It is
            `family_version` in the config of models: part of the fingerprint, and checked when weights are loaded.
        architecture: the beginning of the class names in `config.json`, such as `GatedLinear`.
        Config: the type of its config.
        presets: name → values of `Config`; a name begins with that of the family and a hyphen.
        tasks: the tasks that it can be trained for: with `clm` it is causal, with `mlm` it is not.
        models: framework → `module:Class` of the model that computes it; `torch` is for the backends torch and
            deepspeed.
        features: those of `FEATURES` that hold for it.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    architecture: ClassVar[str]
    Config: ClassVar[type[FamilyConfig]] = FamilyConfig
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    tasks: ClassVar[tuple[str, ...]] = ("clm", "classify", "regress")
    models: ClassVar[Mapping[str, str]]
    features: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def weights(self, config: Any, ids: int) -> TensorSpecs:
        """Return names, shapes and initialization of the weights, in the order of the forward pass.

        The token embedding is `embed_tokens.weight`, (ids, hidden_size). Names of layers are `layers.N.…`, from 0:
        learning rates of layers, Muon and the arrays of Flax go by them.

        Args:
            config: a `Config`.
            ids: rows of the token embedding.
        """

    def check(self, config: Any) -> None:
        """Check that the values of a config go together.

        Raises:
            ConfigError: they do not; `where` is left out for the key's table.
        """
        return

    def flops_per_token(self, config: Any, parameters: int, length: int) -> int:
        """Return the FLOPs of training a token, forward and backward. The default is that of full attention.

        Args:
            config: a `Config`.
            parameters: number of all weights, tied ones once.
            length: tokens in a row.
        """
        return 6 * parameters + _ATTENTION * int(config.num_hidden_layers * config.hidden_size * length)

    def stored_values(self, config: Any, length: int) -> int:
        """Return how many numbers the layers keep for the backward pass for each token. The default is a decoder's.

        Args:
            config: a `Config`.
            length: tokens in a row.
        """
        return _LAYER * int(config.num_hidden_layers * config.hidden_size)

    def read_config(self, values: Mapping[str, Any], where: str = "config.json") -> Any:
        """Return a model's config as a `Config`; keys of other tables, such as `vocab_size`, are left out.

        Args:
            values: plain data.
            where: its place, for errors.

        Raises:
            ConfigError: a value of the wrong type, or values that do not go together.
        """
        known = {key: values[key] for key in self.Config.__struct_fields__ if key in values}
        config = parse_config(known, self.Config, where=where)
        for key in ("hidden_size", "num_hidden_layers", "max_position_embeddings"):
            if getattr(config, key) < 1:
                raise ConfigError(f"{key} is {getattr(config, key)}", where=f"{where}.{key}", fix="use 1 or more")
        try:
            self.check(config)
        except ConfigError as error:
            raise error.replace(where=error.where or where) from error
        return config

    def defaults(self) -> dict[str, Any]:
        """Return every key of the config with its default."""
        found: dict[str, Any] = msgspec.to_builtins(self.Config())
        return found
