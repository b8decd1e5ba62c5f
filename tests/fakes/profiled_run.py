"""Profile some steps of a real worker."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.run.profile import PROFILE, ProfileSteps, ProfileSummary, read_summaries

STEPS = ProfileSteps(3, 5)
_CHANGES = {"steps": 6, "schedule": {}, "checkpoint": {"every_steps": 0}, "validation": {"every_steps": 0}}


def profile_run(
    bench: SuiteRunner, case: str, phases: Collection[str] = ("forward", "backward", "optimizer", "waiting")
) -> tuple[Path, list[ProfileSummary]]:
    """Train a few steps of a case with a profile; return the run and the summary of each process.

    Args:
        bench: runs the backend.
        case: the name of a case.
        phases: rows that the table has besides `input`.
    """
    trained = bench.train(bench.prepare(case, **_CHANGES), **{PROFILE: str(STEPS)})
    assert trained.code == 0, trained.messages
    found = read_summaries(trained.run, STEPS)
    for summary in found:
        assert (summary.first, summary.last) == STEPS and not any("incomplete" in note for note in summary.notes)
        assert {"input", *phases} <= set(summary.phases)
        assert abs(sum(summary.phases.values()) - summary.seconds) < 1e-6 * summary.seconds
    return trained.run, found


def events_of_trace(run: Path, summary: ProfileSummary, ending: str) -> list[str]:
    """Return the names of the events in a trace in Chrome's format, which Perfetto opens."""
    [name] = [name for name in summary.trace if name.endswith(ending)]
    data = gzip.decompress((run / STEPS.folder / f"rank-{summary.rank}" / name).read_bytes())
    return [str(event["name"]) for event in json.loads(data)["traceEvents"] if "name" in event]
