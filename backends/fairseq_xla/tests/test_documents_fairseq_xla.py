"""Documents of a row: their loss and gradient are those of the same documents in rows of their own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep_fairseq_xla.planning.fairseq_options import TASKS, model_options
from jprep_fairseq_xla.worker.patches import import_fairseq
from tests.fakes.row_documents import IDS, LENGTH, PAD, Rows, rows_of_documents, small_config

DEVICE = "xla" if find_spec("torch_xla") else "cpu"


class Optimizer:
    """What `train_step` calls of an optimizer."""

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")


def small_model(kind: str, device: torch.device, options: dict[str, Any]) -> Any:
    """Return a model of two layers with random weights."""
    import_fairseq(DEVICE)
    from jprep_fairseq_xla.models.fairseq_models import build_fairseq_model

    task = TASKS[kind]
    config = model_config(ModelConfig(preset=f"{kind}-tiny"), task, TokenizerInfo(IDS, LENGTH, 0, 2, PAD))
    config, random = small_config(kind, config), np.random.default_rng(1)
    shapes = {name: spec.shape for name, spec in parameters(config, task).items()}
    weights = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    given = model_options(config) | {"tpu" if DEVICE == "xla" else "cpu": True} | options
    built = build_fairseq_model(config, task, given, weights.__getitem__)
    built.model.to(device)
    return built


def measured(built: Any, kind: str, device: torch.device, batches: list[Rows]) -> tuple[float, dict[str, Any]]:
    """Return the summed loss of some batches, and its gradient."""
    from jprep_fairseq_xla.worker.data import fairseq_sample

    built.model.zero_grad()
    total = 0.0
    for rows in batches:
        ids, labels, documents = (None if one is None else torch.from_numpy(one).to(device) for one in rows)
        sample = fairseq_sample(kind, ids, labels, documents)
        loss, _, _ = built.task.train_step(sample, built.model, built.criterion, Optimizer(), 0)
        if DEVICE == "xla":
            pytest.importorskip("torch_xla").sync()  # else all gradients would be one program
        total += loss.item()
    named = built.model.named_parameters()
    return total, {name: weight.grad.cpu().numpy() for name, weight in named if weight.grad is not None}


def alone(ids: Any, labels: Any) -> Rows:
    """Return a document in a row of the length that all have, so that one program is compiled."""
    more: Any = ((0, 0), (0, LENGTH - ids.shape[1]))
    row: Any = np.pad(ids, more, constant_values=PAD), np.pad(labels, more, constant_values=IGNORE_INDEX), None
    return Rows(*row)


@pytest.mark.parametrize(
    ("kind", "options"), [("gpt2", {}), ("bert", {}), ("gpt2", {"checkpoint_activations": True}), ("roberta", {})]
)
def test_documents_are_as_in_rows_of_their_own(kind: str, options: dict[str, Any]) -> None:
    device = torch.device("cpu") if DEVICE == "cpu" else pytest.importorskip("torch_xla").device()
    built, rows = small_model(kind, device, options), rows_of_documents()
    together = measured(built, kind, device, [rows])
    apart = measured(built, kind, device, [alone(*document) for document in rows.alone()])
    assert together[0] == pytest.approx(apart[0], rel=1e-5)
    largest = max(float(np.abs(part).max()) for part in apart[1].values())
    for name, part in apart[1].items():
        assert np.allclose(together[1][name], part, rtol=1e-4, atol=1e-5 * largest), name
    whole = measured(built, kind, device, [rows._replace(documents=np.minimum(rows.documents, 0))])
    assert whole[0] != pytest.approx(apart[0], rel=5e-5), "documents must make a difference"
