"""Several processes. Sums of two do not depend on their order; those of four do."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.run.events import read_events


@pytest.mark.soak
def test_four_processes_go_on_to_the_same_bits(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1, "processes": 4})
    short = {"steps": 8, "checkpoint": {"every_steps": 2}, "validation": {"every_steps": 0}}
    weights = []
    for fault in ({}, {"JPREP_FAILPOINT": "run.committed@2"}):
        trained = bench.train(bench.prepare("gpt2-clm", **short), **fault)
        weights.append((trained.checkpoint() / "model.safetensors").read_bytes())
    assert [event.step for event in read_events(trained.run) if event.kind == "start"] == [0, 2, 4, 6]
    assert weights[0] == weights[1]
