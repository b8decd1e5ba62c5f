"""What the core knows of a model family, built-in or of a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jprep.train.models.plugin_family import Family

TransformersConfig = dict[str, Any]
"""A transformers config as plain data."""


def layer_count(config: Mapping[str, Any]) -> int:
    """Return the number of layers of a model."""
    return int(config.get("n_layer") or config["num_hidden_layers"])


def model_width(config: Mapping[str, Any]) -> int:
    """Return the hidden size of a model."""
    return int(config.get("n_embd") or config["hidden_size"])


class ModelFamily(NamedTuple):
    """A model family.

    Attributes:
        classes: task → transformers' class.
        defaults: every key that may be set, with transformers' default; None if it is derived from other keys.
        positions: the key of the maximum number of positions.
        width: the key of the hidden size.
        heads: the key of the number of attention heads.
        fixed: keys that describe a form of the model of which jprep has one, with its value.
        plugin: the family's description by a plugin, which knows weights and figures; None for a built-in family.
    """

    classes: dict[str, str]
    defaults: TransformersConfig
    positions: str = "max_position_embeddings"
    width: str = "hidden_size"
    heads: str = "num_attention_heads"
    fixed: TransformersConfig = {}
    plugin: Family | None = None

    @property
    def causal(self) -> bool:
        """Whether tokens attend only to themselves and to earlier ones."""
        return "clm" in self.classes

    @property
    def rotary(self) -> bool:
        """Whether positions are rotations, so that no weight limits their number."""
        return bool({"rope_theta", "global_rope_theta"} & self.defaults.keys())
