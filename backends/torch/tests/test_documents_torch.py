"""Documents of a row: their loss and gradient are those of the same documents in rows of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jprep.train.job.config import ModelConfig, TrainConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep_torch.models.encoder_inputs import document_mask, document_positions
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names
from tests.fakes.row_documents import IDS, KINDS, LENGTH, PAD, random_documents, rows_of_documents, small_config


class SmallJob(NamedTuple):
    """What `ModelWithLoss` reads of a job."""

    train: TrainConfig
    model: dict[str, Any]
    class_weights: tuple[float, ...] = ()


def small_model(kind: str, task: Any) -> ModelWithLoss:
    """Return a model of two layers with random weights."""
    section = ModelConfig(preset=f"{kind}-tiny")
    config = small_config(kind, model_config(section, task, TokenizerInfo(IDS, LENGTH, 0, 2, PAD)))
    model, random = build_model(config, task), np.random.default_rng(1)
    names = weight_names(model, config, task)
    shapes = {name: tensor.shape for name, tensor in parameters(config, task).items()}
    weights = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    load_weights(model, names, weights, lambda tensor, _: tensor)
    job: Any = SmallJob(TrainConfig(task=task, model=section, steps=1), config)
    return ModelWithLoss(model, job).eval()


def inputs(ids: Any, labels: Any, documents: Any = None) -> ModelInputs:
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (ids, labels)]
    lengths = torch.full((len(ids),), ids.shape[1]) if documents is None else torch.from_numpy((documents >= 0).sum(1))
    given = None if documents is None else torch.from_numpy(documents)
    return ModelInputs(*tensors, lengths, full=documents is None, types=None, documents=given)


def gradients(model: ModelWithLoss, batches: list[ModelInputs]) -> tuple[float, dict[str, torch.Tensor]]:
    model.zero_grad()
    total = 0.0
    for batch in batches:
        loss, _, _ = model(batch)
        loss.backward()
        total += loss.item()
    return total, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_documents_are_as_in_rows_of_their_own(kind: str, task: str):
    model, rows = small_model(kind, task), rows_of_documents()
    together = gradients(model, [inputs(*rows)])
    apart = gradients(model, [inputs(*document) for document in rows.alone()])
    assert together[0] == pytest.approx(apart[0], rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in apart[1].values())
    for name, gradient in apart[1].items():
        assert torch.allclose(together[1][name], gradient, rtol=1e-4, atol=1e-5 * largest), name
    whole = gradients(model, [inputs(*rows._replace(documents=np.minimum(rows.documents, 0)))])
    assert whole[0] != pytest.approx(apart[0], rel=5e-5), "documents must make a difference"


@pytest.mark.parametrize("length", [1, 2, 24, 300])
def test_a_position_is_the_number_of_earlier_tokens_of_the_document(length: int):
    every_token_alone = np.arange(length)[None]
    documents = torch.from_numpy(np.concatenate([random_documents(8, length), every_token_alone]))
    earlier = document_mask(documents, causal=True).squeeze(1).sum(-1) - 1
    assert document_positions(documents).tolist() == earlier.tolist()


class LargestResult(TorchDispatchMode):
    """Keeps the number of elements of the largest tensor that an operation returned."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.elements = max(self.elements, found.numel())
        return found


def test_positions_need_no_memory_that_grows_with_the_square_of_rows():
    documents = torch.from_numpy(random_documents(2, 512))
    with LargestResult() as largest:
        document_positions(documents)
    assert largest.elements == documents.numel()
