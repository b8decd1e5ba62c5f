"""A profile of DeepSpeed has a trace that other programs open, and the share of each phase."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.profiled_run import events_of_trace, profile_run


def test_a_profile_has_a_trace_and_shares(tmp_path: Path) -> None:
    options = {"device": "cpu", "processes": 2, "threads": 1, "stage": 2}
    run, found = profile_run(SuiteRunner(tmp_path, "deepspeed", options), "gpt2-clm")
    assert [(summary.rank, summary.processes) for summary in found] == [(0, 2), (1, 2)]
    for summary in found:
        assert {"forward", "backward", "optimizer"} <= set(events_of_trace(run, summary, ".pt.trace.json.gz"))
