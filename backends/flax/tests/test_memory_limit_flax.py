"""A CPU whose memory is full ends a run at once, and the message says which micro-batch would fit."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite.bench import Bench
from tests.fakes.limited import assert_ended_for_memory, trained_within


def test_memory_that_runs_out_on_a_cpu_is_not_tried_again(tmp_path: Path) -> None:
    trained = trained_within(Bench(tmp_path, "flax", {"device": "cpu"}), 3.0)
    assert_ended_for_memory(trained, "flax")
