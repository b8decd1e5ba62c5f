"""Small models of all kinds and tasks, in directories as `jprep export` writes them, and inputs for them."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.models.initial_weights import write_initial_weights
from jprep_keras.models.model_with_loss import ModelInputs
from jprep_keras.worker.data import labelled_positions
from jprep_keras.worker.loss import NO_LABEL
from tests.conftest import ROOT

CASES = [("gpt2", "clm"), ("llama", "clm"), ("llama-tied", "clm"), ("bert", "mlm"), ("roberta", "mlm"),
         ("electra", "mlm"), ("gpt2", "classify"), ("llama", "regress"), ("bert", "classify"), ("bert", "regress"),
         ("roberta", "regress"), ("roberta", "classify"), ("electra", "classify")]  # fmt: skip
IDS, PAD, LENGTH, ROWS = 300, 1, 23, 5
PEER = ROOT / "backends" / "flax" / "tests" / "transformers_peer.py"
"""Computes what transformers computes; it needs nothing of its backend."""

_SIZES = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "llama": {"num_key_value_heads": 2},
    "llama-tied": {"num_key_value_heads": 2, "tie_word_embeddings": True, "rope_theta": 5000.0},
    "bert": {"layer_norm_eps": 1e-3, "hidden_act": "relu"},
    "electra": {"embedding_size": 16},
}
_COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
           "max_position_embeddings": 64}  # fmt: skip


def config_of(kind: str, task: str, **more: Any) -> dict[str, Any]:
    sizes = ({} if kind == "gpt2" else _COMMON) | _SIZES.get(kind, {}) | more
    about = TokenizerInfo(IDS, LENGTH, 0, 2, PAD, labels=("a", "b", "c"))
    section = ModelConfig(config={"model_type": kind.removesuffix("-tied"), "initializer_range": 0.2, **sizes})
    return model_config(section, task, about)


def rows_of(config: dict[str, Any], task: str) -> dict[str, Any]:
    """Return rows as transformers takes them: ids, lengths, labels, and token types if the model has some."""
    draw = np.random.default_rng(7)
    ids = draw.integers(5, IDS, (ROWS, LENGTH)).astype(np.int32)
    lengths = np.array([LENGTH, 3, 17, 9, LENGTH - 1], np.int32)
    pad = np.arange(LENGTH) >= lengths[:, None]
    ids[pad] = PAD
    labels: Any = np.where(pad, NO_LABEL, ids).astype(np.int32)
    found = {"ids": ids, "lengths": lengths}
    if task == "mlm":
        labels = np.where((draw.random(ids.shape) < 0.3) & ~pad, labels, NO_LABEL).astype(np.int32)
    elif task in ("classify", "regress"):
        labels = draw.integers(0, 3, ROWS).astype(np.int32) if task == "classify" else draw.random(ROWS, np.float32)
        if config.get("type_vocab_size", 0) > 1:
            found["types"] = (np.arange(LENGTH) >= lengths[:, None] // 2).astype(np.int32)
    return found | {"labels": labels}


def inputs_of(rows: dict[str, Any], task: str) -> ModelInputs:
    ids, labels = rows["ids"], rows["labels"]
    positions = np.zeros((ROWS, 0), np.int32)
    if task == "mlm":
        positions, labels = labelled_positions(labels)
    if task == "clm":
        labels = np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=NO_LABEL)
    types = rows.get("types", np.zeros_like(ids))
    return ModelInputs(
        ids, rows["lengths"], types, positions, labels, np.ones(ROWS, np.float32), np.zeros(ROWS, np.int32)
    )


def exported(folder: Path, kind: str, task: str) -> Path:
    config = config_of(kind, task)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_initial_weights(config, task, 3, folder / "model.safetensors")
    return folder


@cache
def transformers_outputs(folder: Path) -> Path:
    """Return the directory of all cases, with the outputs of transformers."""
    python = os.environ.get("JPREP_TORCH")
    if not python:
        pytest.skip("JPREP_TORCH is not set to a Python with transformers")
    for kind, task in CASES:
        path = exported(folder / f"{kind}-{task}", kind, task)
        np.savez(path / "rows.npz", **rows_of(config_of(kind, task), task))
    subprocess.run([python, "-P", str(PEER), str(folder)], check=True, capture_output=True)
    return folder
