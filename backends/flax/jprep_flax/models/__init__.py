"""Models of transformers' families, in flax.nnx."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jprep_flax.models.encoder import BertEncoder
from jprep_flax.models.gpt2 import GPT2
from jprep_flax.models.layers import LayerFactory
from jprep_flax.models.llama import Llama

BASE_MODELS = {"gpt2": GPT2, "llama": Llama, "bert": BertEncoder, "roberta": BertEncoder, "electra": BertEncoder}


def build_base_model(config: dict[str, Any], make: LayerFactory, remat: bool) -> nnx.Module:
    """The part of a model that all tasks share."""
    return BASE_MODELS[config["model_type"]](config, make, remat)
