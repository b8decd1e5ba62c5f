"""A profile of fairseq has a trace that other programs open, and the share of each phase."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.profiled_run import events_of_trace, profile_run


def test_a_profile_has_a_trace_and_shares(tmp_path: Path) -> None:
    on_xla = find_spec("torch_xla")
    options = {"device": "xla", "threads": 1} if on_xla else {"device": "cpu", "threads": 1, "processes": 2}
    run, [summary, *others] = profile_run(SuiteRunner(tmp_path, "fairseq-xla", options), "roberta-mlm")
    if on_xla:
        assert any(name.endswith(".xplane.pb") for name in summary.trace) and "one program" in summary.notes[0]
        assert events_of_trace(run, summary, ".trace.json.gz")
    else:
        assert len(others) == 1 and "optimizer" in events_of_trace(run, summary, ".pt.trace.json.gz")
