"""Small models of all families and tasks, in folders as `jprep export` writes them, and rows for them."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.models.initial_weights import write_initial_weights
from jprep_flax.models import weights
from jprep_flax.models.model_with_loss import NO_LABEL, ModelInputs, ModelWithLoss

CASES = [("gpt2", "clm"), ("llama", "clm"), ("llama-tied", "clm"), ("bert", "mlm"), ("roberta", "mlm"),
         ("electra", "mlm"), ("gpt2", "classify"), ("llama", "regress"), ("bert", "classify"), ("bert", "regress"),
         ("roberta", "regress"), ("roberta", "classify"), ("electra", "classify")]  # fmt: skip
IDS, PAD, LENGTH, ROWS = 300, 1, 23, 5

_SIZES = {
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "llama": {"num_key_value_heads": 2, "attention_bias": True},
    "llama-tied": {"num_key_value_heads": 2, "head_dim": 12, "tie_word_embeddings": True},
    "electra": {"embedding_size": 16},
}
_COMMON = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
           "max_position_embeddings": 64}  # fmt: skip


def config_of(kind: str, task: str, **more: Any) -> dict[str, Any]:
    sizes = ({} if kind == "gpt2" else _COMMON) | _SIZES.get(kind, {}) | more
    about = TokenizerInfo(IDS, LENGTH, 0, 2, PAD, labels=("a", "b", "c"))
    section = ModelConfig(config={"model_type": kind.removesuffix("-tied"), "initializer_range": 0.2, **sizes})
    return model_config(section, task, about)


def rows_of(config: dict[str, Any], task: str) -> ModelInputs:
    draw = np.random.default_rng(7)
    ids = draw.integers(5, IDS, (ROWS, LENGTH)).astype(np.int32)
    lengths = np.array([LENGTH, 3, 17, 9, LENGTH - 1], np.int32)
    pad = np.arange(LENGTH) >= lengths[:, None]
    ids[pad] = PAD
    labels: Any = np.where(pad, NO_LABEL, ids).astype(np.int32)
    types = None
    if task == "mlm":
        labels = np.where((draw.random(ids.shape) < 0.3) & ~pad, labels, NO_LABEL).astype(np.int32)
    elif task in ("classify", "regress"):
        labels = draw.integers(0, 3, ROWS).astype(np.int32) if task == "classify" else draw.random(ROWS, np.float32)
        if config.get("type_vocab_size", 0) > 1:
            types = (np.arange(LENGTH) >= lengths[:, None] // 2).astype(np.int32)
    return ModelInputs(ids, labels, lengths, types, np.ones(ROWS, np.float32))


def exported(folder: Path, kind: str, task: str) -> Path:
    config = config_of(kind, task)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_initial_weights(config, task, 3, folder / "model.safetensors")
    return folder


def trainee_of(config: dict[str, Any], task: str, path: Path, dtype: Any = jnp.float32, **more: Any) -> tuple[Any, Any]:
    """A graph and its weights."""
    abstract = nnx.eval_shape(lambda: ModelWithLoss(config, task, dtype=dtype, rngs=nnx.Rngs(0), **more))
    graph, state = nnx.split(abstract)
    read = load_file(path).__getitem__
    return graph, weights.load_weights(state, config, task, read, lambda array, _: jnp.asarray(array))


@cache
def transformers_outputs(folder: Path) -> Path:
    """All cases' folders in one, with what transformers makes of them."""
    python = os.environ.get("JPREP_TORCH")
    if not python:
        pytest.skip("JPREP_TORCH names no Python that has transformers")
    for kind, task in CASES:
        path = exported(folder / f"{kind}-{task}", kind, task)
        rows = rows_of(config_of(kind, task), task)
        np.savez(path / "rows.npz", **{name: value for name, value in rows._asdict().items() if value is not None})
    script = Path(__file__).with_name("transformers_peer.py")
    subprocess.run([python, "-P", str(script), str(folder)], check=True, capture_output=True)
    return folder
