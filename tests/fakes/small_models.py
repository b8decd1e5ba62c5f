"""Small models of all kinds and tasks as `jprep export` writes them, inputs, and what transformers makes of both."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.models.initial_weights import write_initial_weights

CASES = [("gpt2", "clm"), ("llama", "clm"), ("llama-tied", "clm"), ("bert", "mlm"), ("roberta", "mlm"),
         ("electra", "mlm"), ("gpt2", "classify"), ("llama", "regress"), ("bert", "classify"), ("bert", "regress"),
         ("roberta", "regress"), ("roberta", "classify"), ("electra", "classify")]  # fmt: skip
NEW_CASES = [("llama-llama3", "clm"), ("llama-yarn", "clm"), ("qwen3", "clm"), ("qwen3", "classify"),
             ("modernbert", "mlm"), ("modernbert", "classify"), ("modernbert-biased", "mlm"),
             ("modernbert-biased", "regress"), ("deberta-v2", "mlm"), ("deberta-v2", "classify"),
             ("deberta-v2-conv", "mlm"), ("qwen3_moe", "clm"), ("qwen3_moe", "classify")]  # fmt: skip
"""Those that KerasHub does not have."""
IDS, PAD, LENGTH, ROWS = 300, 1, 23, 5

_PEER = Path(__file__).with_name("transformers_peer.py")
_ENCODER = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64}
_SIZES = {
    "gpt2": {"n_embd": 32, "n_head": 4, "n_positions": 64},
    "llama": {**_ENCODER, "num_key_value_heads": 2},
    "llama-tied": {**_ENCODER, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "llama-llama3": {**_ENCODER, "rope_theta": 5e4, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                     "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    "llama-yarn": {**_ENCODER, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 0.5,
                   "original_max_position_embeddings": 16}},
    "qwen3": {**_ENCODER, "num_key_value_heads": 2, "head_dim": 12, "tie_word_embeddings": True, "rope_theta": 1e6},
    "modernbert": {**_ENCODER, "local_attention": 8, "classifier_pooling": "mean"},
    "modernbert-biased": {**_ENCODER, "local_attention": 6, "global_attn_every_n_layers": 2, "norm_bias": True,
                          "attention_bias": True, "mlp_bias": True, "classifier_bias": True},
    "deberta-v2": {**_ENCODER, "position_buckets": 4},
    "deberta-v2-conv": {**_ENCODER, "position_buckets": 8, "type_vocab_size": 2, "conv_kernel_size": 3},
    "qwen3_moe": {**_ENCODER, "num_key_value_heads": 2, "head_dim": 12, "num_experts": 6, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 20, "norm_topk_prob": True},
    "electra": {**_ENCODER, "embedding_size": 16},
}  # fmt: skip
_TYPES = dict.fromkeys(("llama-tied", "llama-llama3", "llama-yarn"), "llama") | {
    "modernbert-biased": "modernbert",
    "deberta-v2-conv": "deberta-v2",
}
"""Kind → `model_type`, where it is not the same."""


def model_type(kind: str) -> str:
    """Return the `model_type` of a kind of model."""
    return _TYPES.get(kind, kind)


class SmallModels:
    """Small models.

    Args:
        layers: number of layers.
        options: for each kind, what else its config has.
        cases: kinds and tasks.
    """

    def __init__(
        self, layers: int, options: Mapping[str, Mapping[str, Any]], cases: Sequence[tuple[str, str]] = CASES
    ) -> None:
        self._layers, self._options, self.cases = layers, options, cases

    def config(self, kind: str, task: str, **more: Any) -> dict[str, Any]:
        """Return transformers' config."""
        layers = {"n_layer" if kind == "gpt2" else "num_hidden_layers": self._layers}
        sizes = {**_SIZES.get(kind, _ENCODER), **layers, **self._options.get(kind, {}), **more}
        about = TokenizerInfo(IDS, LENGTH, 0, 2, PAD, labels=("a", "b", "c"))
        section = ModelConfig(config={"model_type": model_type(kind), "initializer_range": 0.2, **sizes})
        return model_config(section, task, about)

    def export(self, folder: Path, kind: str, task: str) -> Path:
        """Write a model as `jprep export` does."""
        config = self.config(kind, task)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        write_initial_weights(config, task, 3, folder / "model.safetensors")
        return folder


def rows_of(config: dict[str, Any], task: str) -> dict[str, Any]:
    """Return rows as transformers takes them: ids, lengths, labels, and token types if the model has some."""
    draw = np.random.default_rng(7)
    ids = draw.integers(5, IDS, (ROWS, LENGTH)).astype(np.int32)
    lengths = np.array([LENGTH, 3, 17, 9, LENGTH - 1], np.int32)
    pad = np.arange(LENGTH) >= lengths[:, None]
    ids[pad] = PAD
    labels: Any = np.where(pad, IGNORE_INDEX, ids).astype(np.int32)
    found = {"ids": ids, "lengths": lengths}
    if task == "mlm":
        labels = np.where((draw.random(ids.shape) < 0.3) & ~pad, labels, IGNORE_INDEX).astype(np.int32)
    elif task in ("classify", "regress"):
        labels = draw.integers(0, 3, ROWS).astype(np.int32) if task == "classify" else draw.random(ROWS, np.float32)
        if config.get("type_vocab_size", 0) > 1:
            found["types"] = (np.arange(LENGTH) >= lengths[:, None] // 2).astype(np.int32)
    return found | {"labels": labels}


@cache
def transformers_outputs(models: SmallModels, folder: Path) -> Path:
    """Return the directory of all cases, with the outputs of transformers."""
    python = os.environ.get("JPREP_TORCH")
    if not python:
        pytest.skip("JPREP_TORCH is not set to a Python with transformers")
    for kind, task in models.cases:
        path = models.export(folder / f"{kind}-{task}", kind, task)
        np.savez(path / "rows.npz", **rows_of(models.config(kind, task), task))
    subprocess.run([python, "-P", str(_PEER), str(folder)], check=True, capture_output=True)
    return folder
