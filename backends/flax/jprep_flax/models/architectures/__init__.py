"""Models of transformers' families and of plugins without heads, in flax.nnx."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jprep.errors import ConfigError
from jprep.plugins.manager import load_class
from jprep.train.models import FAMILIES
from jprep.train.models.plugin_family import Family
from jprep.train.models.registry import check_version
from jprep_flax.models.architectures.deberta import Deberta
from jprep_flax.models.architectures.decoder import Decoder
from jprep_flax.models.architectures.encoder import BertEncoder
from jprep_flax.models.architectures.gpt2 import GPT2
from jprep_flax.models.architectures.modernbert import ModernBert
from jprep_flax.models.layers import LayerFactory

FRAMEWORK = "flax"

BASE_MODELS = {
    "gpt2": GPT2,
    "llama": Decoder,
    "qwen3": Decoder,
    "bert": BertEncoder,
    "roberta": BertEncoder,
    "electra": BertEncoder,
    "modernbert": ModernBert,
    "deberta-v2": Deberta,
}


def build_base_model(config: dict[str, Any], make: LayerFactory, remat: bool) -> nnx.Module:
    """Return a model without a head: the part that all tasks share.

    That of a plugin's family is created by `Model(config, ids, make, remat)`, from its `Config`, the rows of the token
    embedding, a factory of weights, and whether layers are recomputed. It has the methods of a built-in model.
    """
    if plugin := FAMILIES[config["model_type"]].plugin:
        return _plugin_model(plugin, config, make, remat)
    return BASE_MODELS[config["model_type"]](config, make, remat)


def _plugin_model(family: Family, config: dict[str, Any], make: LayerFactory, remat: bool) -> nnx.Module:
    check_version(config, FAMILIES[family.name], family.name)
    if FRAMEWORK not in family.models:
        fix = "use a backend that the family has a model for, e.g. --backend torch"
        raise ConfigError(f"the model family {family.name!r} has no Flax model", where=family.name, fix=fix)
    model = load_class(family.models[FRAMEWORK])(family.read_config(config), config["vocab_size"], make, remat)
    if not isinstance(model, nnx.Module) or not hasattr(model, "embedding"):
        what = f"the Flax model of the family {family.name!r} is not an nnx.Module with an `embedding`"
        raise ConfigError(what, where=f"model_type {family.name}", fix="return its EmbeddingTable as `embedding`")
    return model
