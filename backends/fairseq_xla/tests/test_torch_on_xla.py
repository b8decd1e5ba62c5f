"""The backend torch on XLA devices, tested in the environment that has torch_xla."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner

pytestmark = pytest.mark.skipif(
    not (find_spec("torch_xla") and find_spec("transformers")), reason="torch_xla or transformers is not here"
)


@pytest.mark.parametrize(
    ("case", "devices"),
    [
        ("gpt2-clm", 4),
        pytest.param("gpt2-clm", 1, marks=pytest.mark.soak),
        pytest.param("roberta-mlm", 4, marks=pytest.mark.soak),
    ],
)
def test_losses_are_the_golden_ones(case: str, devices: int, tmp_path: Path) -> None:
    trained = SuiteRunner(tmp_path, "torch", {"device": "xla", "devices": devices, "threads": 1}).trained(case)
    assert list(trained.losses().values()) == pytest.approx(golden_curve(case).train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(golden_curve(case).validation, rel=1e-4)
