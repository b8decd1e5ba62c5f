"""A profile of torch has a trace that other programs open, and the share of each phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.profiled_run import events_of_trace, profile_run


@pytest.mark.backends
def test_a_profile_has_a_trace_and_shares(tmp_path: Path) -> None:
    run, [summary] = profile_run(SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1}), "roberta-mlm")
    names = events_of_trace(run, summary, ".pt.trace.json.gz")
    assert {"forward", "backward", "optimizer"} <= set(names) and any("aten::" in name for name in names)
