"""Documents of a row: their loss and gradient are those of the same documents in rows of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep_keras.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_keras.planning.checks import MODEL_TYPES
from jprep_keras.worker.data import labelled_positions
from tests.fakes.row_documents import IDS, KINDS, LENGTH, PAD, rows_of_documents, small_config


def small_model(kind: str, task: Any) -> tuple[ModelWithLoss, dict[str, Any]]:
    """Return a model of two layers, and random weights."""
    config = model_config(ModelConfig(preset=f"{kind}-tiny"), task, TokenizerInfo(IDS, LENGTH, 0, 2, PAD))
    config, random = small_config(kind, config), np.random.default_rng(1)
    shapes = {name: spec.shape for name, spec in parameters(config, task).items()}
    weights = {name: tf.constant(random.normal(0, 0.3, shape), tf.float32) for name, shape in shapes.items()}
    return ModelWithLoss(config, task), weights


def inputs(task: str, ids: Any, labels: Any, documents: Any = None) -> ModelInputs:
    """Return rows of several documents, or documents in rows of their own, padded to one length."""
    lengths = (ids != PAD).sum(1) if documents is None else (documents >= 0).sum(1)
    none = np.zeros((len(ids), 0))
    if task == "clm":
        positions, labels = none, np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=IGNORE_INDEX)
    else:
        positions, labels = labelled_positions(labels)
    fields = ids, lengths, 0 * ids, positions, labels, lengths, lengths, none if documents is None else documents
    return ModelInputs(*(tf.constant(field, tf.int32) for field in fields))


def alone(task: str, ids: Any, labels: Any) -> ModelInputs:
    """Return a document in a row of the length that all have, so that one program is traced."""
    more = ((0, 0), (0, LENGTH - ids.shape[1]))
    return inputs(task, np.pad(ids, more, constant_values=PAD), np.pad(labels, more, constant_values=IGNORE_INDEX))


@pytest.mark.parametrize(("kind", "task"), [case for case in KINDS if case[0] in MODEL_TYPES])
def test_documents_are_as_in_rows_of_their_own(kind: str, task: Any) -> None:
    model, weights = small_model(kind, task)

    @tf.function
    def measured(rows: ModelInputs) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = model(weights, rows)[0]
        gradient = tape.gradient(loss, weights, unconnected_gradients="zero")
        return loss, {name: tf.convert_to_tensor(part) for name, part in gradient.items()}

    rows = rows_of_documents()
    together, gradient = measured(inputs(task, *rows))
    apart = [measured(alone(task, *document)) for document in rows.alone()]
    total = sum(float(loss) for loss, _ in apart)
    assert float(together) == pytest.approx(total, rel=1e-5)
    summed = {name: sum(parts[name].numpy() for _, parts in apart) for name in weights}
    largest = max(float(np.abs(part).max()) for part in summed.values())
    for name, part in summed.items():
        assert np.allclose(gradient[name].numpy(), part, rtol=1e-4, atol=1e-5 * largest), name
    whole, _ = measured(inputs(task, *rows._replace(documents=np.minimum(rows.documents, 0))))
    assert float(whole) != pytest.approx(total, rel=5e-5), "documents must make a difference"


def test_llama_rotates_by_positions_in_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its losses depend on distances only, so wrong positions would change nothing but rounding."""
    (model, weights), rows = small_model("llama", "clm"), rows_of_documents()
    attentions = [layer._self_attention_layer for layer in model.backbone.transformer_layers]
    before = [attention.rotary_embedding_layer for attention in attentions]
    given: list[Any] = []
    original = type(before[0])._compute_cos_sin_embedding

    def recorded(rotation: Any, x: Any, start: int = 0, positions: Any = None) -> Any:
        given.append(positions)
        return original(rotation, x, start, positions)

    monkeypatch.setattr(type(before[0]), "_compute_cos_sin_embedding", recorded)
    model(weights, inputs("clm", *rows))
    assert len(given) == 2 * len(attentions), "queries and keys of each layer"
    for positions in given:
        for numbers, found in zip(rows.documents, positions.numpy(), strict=True):
            assert found.tolist() == [int((numbers[:at] == numbers[at]).sum()) for at in range(LENGTH)]
    assert [attention.rotary_embedding_layer for attention in attentions] == before
