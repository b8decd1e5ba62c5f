"""Small models for Keras, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep_keras.models.model_with_loss import ModelInputs
from jprep_keras.worker.data import labelled_positions
from tests.fakes.small_models import ROWS, SmallModels

MODELS = SmallModels(2, {"llama-tied": {"rope_theta": 5000.0}, "bert": {"layer_norm_eps": 1e-3, "hidden_act": "relu"}})


def inputs_of(rows: dict[str, Any], task: str) -> ModelInputs:
    ids, labels = rows["ids"], rows["labels"]
    positions = np.zeros((ROWS, 0), np.int32)
    if task == "mlm":
        positions, labels = labelled_positions(labels)
    if task == "clm":
        labels = np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=IGNORE_INDEX)
    types = rows.get("types", np.zeros_like(ids))
    documents = np.zeros((ROWS, 0), np.int32)
    return ModelInputs(
        ids, rows["lengths"], types, positions, labels, np.ones(ROWS, np.float32), np.zeros(ROWS, np.int32), documents
    )
