"""A profile of Flax has a trace that other programs open, and the share of each phase."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep_flax.worker.profiling import phase_of
from tests.fakes.profiled_run import events_of_trace, profile_run


def test_a_profile_has_a_trace_and_shares(tmp_path: Path) -> None:
    run, [summary] = profile_run(SuiteRunner(tmp_path, "flax", {"device": "cpu"}), "gpt2-clm")
    # Which of the two is larger depends on what else the machine does.
    assert summary.phases["backward"] > 0 and summary.phases["optimizer"] > 0 and "device" not in summary.phases
    assert events_of_trace(run, summary, "perfetto_trace.json.gz")
    assert any(name.startswith("plugins/profile/") and name.endswith(".xplane.pb") for name in summary.trace)


def test_an_operation_s_name_tells_its_phase() -> None:
    assert phase_of("jit(update)/jit(main)/jvp(ModelWithLoss)/dot_general") == "forward"
    assert phase_of("jit(update)/jit(main)/transpose(jvp(ModelWithLoss))/dot_general") == "backward"
    assert phase_of("jit(update)/jit(main)/optimizer/mul") == "optimizer"
    assert phase_of("jit(update)/jit(main)/reduce_sum") == ""
