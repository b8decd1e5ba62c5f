"""Documents of a row: their loss is that of the same documents in rows of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import save_file
from small_models import model_with_loss

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep_flax.models.model_with_loss import ModelInputs
from tests.fakes.row_documents import IDS, KINDS, LENGTH, PAD, rows_of_documents, small_config


def inputs(ids: Any, labels: Any, documents: Any = None) -> ModelInputs:
    lengths = np.full(len(ids), ids.shape[1]) if documents is None else (documents >= 0).sum(1)
    return ModelInputs(ids, labels, lengths, None, np.ones(len(ids), np.float32), documents=documents)


def padded(ids: Any, labels: Any) -> ModelInputs:
    """Return a document in a row of the length that all have, so that one program is compiled."""
    tokens = ids.shape[1]
    more = ((0, 0), (0, LENGTH - tokens))
    rows = inputs(np.pad(ids, more, constant_values=PAD), np.pad(labels, more, constant_values=IGNORE_INDEX))
    return rows._replace(lengths=np.array([tokens]))


@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_documents_are_as_in_rows_of_their_own(kind: str, task: Any, tmp_path: Path):
    config = model_config(ModelConfig(preset=f"{kind}-tiny"), task, TokenizerInfo(IDS, LENGTH, 0, 2, PAD))
    config, random = small_config(kind, config), np.random.default_rng(1)
    shapes = {name: tensor.shape for name, tensor in parameters(config, task).items()}
    weights = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "model.safetensors")
    graph, state = model_with_loss(config, task, tmp_path / "model.safetensors")
    loss = jax.jit(lambda state, rows: nnx.merge(graph, state)(rows)[0])
    rows = rows_of_documents()
    together = float(loss(state, inputs(*rows)))
    apart = sum(float(loss(state, padded(*document))) for document in rows.alone())
    assert together == pytest.approx(apart, rel=1e-5)
    whole = float(loss(state, inputs(*rows._replace(documents=np.minimum(rows.documents, 0)))))
    assert whole != pytest.approx(apart, rel=5e-5), "documents must make a difference"
