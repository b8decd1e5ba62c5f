"""Small models in Flax, and inputs for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors.numpy import load_file

from jprep_flax.models import weights
from jprep_flax.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_flax.planning.checks import MODEL_TYPES
from tests.fakes.small_models import CASES, NEW_CASES, ROWS, SmallModels, model_type, rows_of

_CASES = [case for case in (*CASES, *NEW_CASES) if model_type(case[0]) in MODEL_TYPES]
MODELS = SmallModels(3, {"llama": {"attention_bias": True}, "llama-tied": {"head_dim": 12}}, _CASES)


def inputs_of(config: dict[str, Any], task: str) -> ModelInputs:
    rows = rows_of(config, task)
    return ModelInputs(rows["ids"], rows["labels"], rows["lengths"], rows.get("types"), np.ones(ROWS, np.float32))


def model_with_loss(
    config: dict[str, Any], task: str, path: Path, dtype: Any = jnp.float32, **more: Any
) -> tuple[Any, Any]:
    """Return a model's graph and its weights."""
    abstract = nnx.eval_shape(lambda: ModelWithLoss(config, task, dtype=dtype, rngs=nnx.Rngs(0), **more))
    graph, state = nnx.split(abstract)
    read = load_file(path).__getitem__
    return graph, weights.load_weights(state, config, task, read, lambda array, _: jnp.asarray(array.whole()))
