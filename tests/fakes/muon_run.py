"""What a run of the case `gpt2-muon` must look like on every backend."""

from __future__ import annotations

import pytest

from jprep.testing.backend_suite.cases import SAVED, golden_curve
from jprep.testing.backend_suite.runner import FinishedRun
from jprep.testing.backend_suite.suite import PARITY
from jprep.train.run.checkpoint_files import CheckpointReader

CASE = "gpt2-muon"


def assert_golden_muon_run(run: FinishedRun, tolerance: float = PARITY) -> None:
    """Assert that a run that began twice has the golden curve, and a checkpoint with one average of each matrix."""
    assert run.code == 0, run.messages
    assert [event.step for event in run.events() if event.kind == "start"] == [0, SAVED], run.messages
    assert list(run.losses().values()) == pytest.approx(golden_curve(CASE).train, rel=tolerance)
    averages = CheckpointReader(run.checkpoint()).averages
    assert "m.transformer.h.0.attn.c_attn.weight" in averages and "v.transformer.wte.weight" in averages
    assert "v.transformer.h.0.attn.c_attn.weight" not in averages, "Muon has no second average"
