"""A profile of Keras has a trace of each engine, and the time of its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.profiled_run import events_of_trace, profile_run


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_profile_has_a_trace_and_the_time_of_the_program(tmp_path: Path, engine: str) -> None:
    bench = SuiteRunner(tmp_path, "keras", {"device": "cpu", "engine": engine})
    run, [summary] = profile_run(bench, "gpt2-clm", phases=["device"])
    assert summary.phases["device"] > summary.phases["input"] > 0
    assert any(name.startswith("plugins/profile/") and name.endswith(".xplane.pb") for name in summary.trace)
    if engine == "jax":
        assert events_of_trace(run, summary, "perfetto_trace.json.gz")
