"""Models of transformers' families, in flax.nnx."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jprep_flax.models.encoder import Encoder
from jprep_flax.models.gpt2 import GPT2
from jprep_flax.models.llama import Llama
from jprep_flax.models.parts import Maker

BODIES = {"gpt2": GPT2, "llama": Llama, "bert": Encoder, "roberta": Encoder, "electra": Encoder}


def build_body(config: dict[str, Any], make: Maker, remat: bool) -> nnx.Module:
    """The part of a model that all tasks share."""
    return BODIES[config["model_type"]](config, make, remat)
