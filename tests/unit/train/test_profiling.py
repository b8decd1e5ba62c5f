"""A profile covers the steps that were asked for, and its phases add up; a profiler that fails ends no training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError
from jprep.train.launcher import launch
from jprep.train.launcher.launch import PreparedRun
from jprep.train.launcher.supervisor import supervise
from jprep.train.planning.host import this_host
from jprep.train.run.directory import read_job
from jprep.train.run.events import read_events
from jprep.train.run.profile import (
    PROFILE,
    ProfileSteps,
    ProfileSummary,
    check_profile,
    format_table,
    parse_profile,
    read_summaries,
)
from jprep.train.worker.profiling import NoTracer, Profiler
from tests.conftest import Run
from tests.fakes.small_run import plan_of, small_run, weights

STEPS = ProfileSteps(20, 25)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_steps_are_written_as_they_are_read(first: int, more: int) -> None:
    steps = ProfileSteps(first, first + more)
    assert parse_profile(f"steps={steps}") == parse_profile(str(steps)) == steps


@pytest.mark.parametrize("text", ["steps=", "steps=5:", "steps=a:b", "20-25", "steps=0:5", "steps=9:8", ":5"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_profile(text)
    assert "--profile steps=20:25" in caught.value.fix


@pytest.mark.parametrize(("steps", "done"), [((20, 25), 20), ((50, 61), 0), ((61, 61), 0), ((10, 30), 15)])
def test_steps_outside_the_run_are_refused(steps: tuple[int, int], done: int) -> None:
    with pytest.raises(ConfigError, match="outside the run") as caught:
        check_profile(ProfileSteps(*steps), 60, done)
    proposed = parse_profile(caught.value.fix.removeprefix("--profile "))
    check_profile(proposed, 60, done)


def test_a_finished_run_has_no_steps_to_profile() -> None:
    with pytest.raises(ConfigError, match="finished after 60 steps"):
        check_profile(STEPS, 60, 60)


def test_a_run_resumes_where_its_profile_would_be_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = small_run(tmp_path), list[Any]()
    monkeypatch.setattr(launch, "create_run", lambda *_: None)
    monkeypatch.setattr(launch, "supervise", lambda run, plan, **_: seen.append(plan.env) or 0)
    prepared = PreparedRun(None, read_job(run), run, plan_of(run), this_host(Path("python")))  # type: ignore[arg-type]
    assert launch.train(prepared, profile=STEPS) == 0 and seen[0][PROFILE] == "20:25"
    assert supervise(run, plan_of(run)) == 0
    with pytest.raises(ConfigError, match="finished"):
        launch.train(prepared, profile=STEPS)
    assert launch.train(prepared, profile=STEPS, resume_step=0) == 0
    with pytest.raises(ConfigError, match="resumes after step 50"):
        launch.train(prepared, profile=STEPS, resume_step=50)


def test_a_worker_that_dies_is_profiled_again_and_the_weights_stay(tmp_path: Path) -> None:
    plain, run = small_run(tmp_path / "plain"), small_run(tmp_path / "profiled")
    assert supervise(plain, plan_of(plain)) == 0
    plan = plan_of(run, **{PROFILE: str(STEPS), "HANG_AT": "0", "JPREP_FAILPOINT": "run.committed@2=die"})
    assert supervise(run, plan, backoff=0.01, say=print) in (0, 1)
    assert supervise(run, msgspec.structs.replace(plan_of(run), env=plan_of(run).env | {PROFILE: str(STEPS)})) == 0
    assert weights(run) == weights(plain)
    [summary] = read_summaries(run, STEPS)
    assert (summary.first, summary.last, summary.rank, summary.processes) == (21, 25, 0, 1), "it resumed after step 20"
    assert sum(summary.phases.values()) == pytest.approx(summary.seconds, rel=1e-6)
    assert set(summary.phases) == {"input", "other"}, "this worker marks no phases"
    *_, event = [event for event in read_events(run) if event.kind == "profile"]
    assert event.step == 25 and "steps 21 to 25" in event.note and event.figures["input"] == summary.phases["input"]


def test_a_profile_that_the_run_s_end_cuts_is_complete(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run, **{PROFILE: "58:60"})) == 0
    [summary] = read_summaries(run, ProfileSteps(58, 60))
    assert (summary.first, summary.last) == (58, 60)


def profiled(run: Path, tracer: Any, seconds: float = 0.02) -> ProfileSummary:
    """Profile two steps with nested phases, and return the summary."""
    profiler = Profiler(run, steps=ProfileSteps(2, 3))
    profiler.tracer = tracer
    for step in (1, 2, 3, 4):
        profiler.input(step, lambda: None)
        with profiler.phase("forward"):
            time.sleep(seconds)
            with profiler.phase("waiting"):
                time.sleep(2 * seconds)
        with profiler.phase("device"):
            time.sleep(seconds)
    profiler.close()
    [summary] = read_summaries(run, ProfileSteps(2, 3))
    return summary


def test_an_inner_phase_does_not_count_for_the_outer_one(tmp_path: Path) -> None:
    summary = profiled(tmp_path, NoTracer())
    assert summary.phases["waiting"] >= 0.08 and summary.phases["forward"] >= 0.04
    assert sum(summary.phases.values()) == pytest.approx(summary.seconds, rel=1e-6)
    assert "waiting" in format_table(summary) and (summary.first, summary.last) == (2, 3)


def test_the_device_s_time_is_divided_as_its_trace_says(tmp_path: Path) -> None:
    class Shared(NoTracer):
        def device_shares(self) -> Mapping[str, float]:
            return {"forward": 0.25, "backward": 0.75}

    summary = profiled(tmp_path, Shared())
    assert "device" not in summary.phases and summary.phases["backward"] >= 0.03
    assert sum(summary.phases.values()) == pytest.approx(summary.seconds, rel=1e-6)


def test_a_profiler_that_fails_is_reported(tmp_path: Path) -> None:
    class Failing(NoTracer):
        def start(self, folder: Path) -> None:
            raise RuntimeError("CUPTI is not here")

        def annotate(self, name: str) -> AbstractContextManager[object]:
            return nullcontext()

    summary = profiled(tmp_path, Failing())
    assert summary.notes == ["the profile is incomplete: starting the trace: RuntimeError: CUPTI is not here"]
    assert "CUPTI is not here" in format_table(summary)


def test_the_option_is_checked_before_anything_is_read(jprep: Run) -> None:
    done = jprep("train", "missing.toml", "--profile", "steps=5:1", code=2)
    assert "--profile steps=20:25" in done.stderr
