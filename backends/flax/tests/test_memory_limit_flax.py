"""A CPU whose memory is full ends a run at once, and the message says which micro-batch would fit."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.memory_limit import assert_out_of_memory, train_with_memory_limit


def test_memory_that_runs_out_on_a_cpu_is_not_tried_again(tmp_path: Path) -> None:
    trained = train_with_memory_limit(SuiteRunner(tmp_path, "flax", {"device": "cpu"}), 3.0)
    assert_out_of_memory(trained, "flax")
