"""The backend torch on XLA devices, tested in the environment that has torch_xla."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep_torch.models.encoder_inputs import document_positions
from tests.fakes.guide_family import CASE, installed_family, known_curve
from tests.fakes.row_documents import random_documents

pytestmark = pytest.mark.skipif(
    not (find_spec("torch_xla") and find_spec("transformers")), reason="torch_xla or transformers is not here"
)


@pytest.mark.parametrize(
    ("case", "devices"),
    [
        ("gpt2-clm", 4),
        pytest.param("gpt2-clm", 1, marks=pytest.mark.soak),
        pytest.param("roberta-mlm", 4, marks=pytest.mark.soak),
        pytest.param("llama-documents", 4, marks=pytest.mark.soak),
    ],
)
def test_losses_are_the_golden_ones(case: str, devices: int, tmp_path: Path) -> None:
    trained = SuiteRunner(tmp_path, "torch", {"device": "xla", "devices": devices, "threads": 1}).trained(case)
    assert list(trained.losses().values()) == pytest.approx(golden_curve(case).train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(golden_curve(case).validation, rel=1e-4)


@pytest.mark.parametrize("length", [24, 40, 100, 300, 512])
def test_positions_in_documents_are_those_of_a_cpu(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cummax` of torch_xla 2.9 fails for rows of 24 tokens, and ends the process for rows of 512."""
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    documents = torch.from_numpy(random_documents(2, length))
    found = document_positions(documents.to(pytest.importorskip("torch_xla").device()))
    assert found.cpu().tolist() == document_positions(documents).tolist()


@pytest.mark.soak
def test_a_family_of_a_plugin_has_the_losses_of_all_backends(tmp_path: Path) -> None:
    with installed_family(tmp_path / "family"):
        runner = SuiteRunner(tmp_path, "torch", {"device": "xla", "devices": 2, "threads": 1})
        assert list(runner.trained(CASE).losses().values()) == pytest.approx(known_curve(CASE).train, rel=1e-4)
