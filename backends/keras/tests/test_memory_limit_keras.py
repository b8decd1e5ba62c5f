"""Running out of memory on a CPU ends a run at once, and the message names a micro-batch that would fit."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.memory_limit import assert_out_of_memory, train_with_memory_limit


def test_running_out_of_memory_on_a_cpu_is_not_retried(tmp_path: Path) -> None:
    # oneDNN may abort the process where memory is full; that looks like any other crash, and is retried.
    bench, env = SuiteRunner(tmp_path, "keras", {"device": "cpu"}), {"TF_ENABLE_ONEDNN_OPTS": "0"}
    trained = train_with_memory_limit(bench, 5.0, **env)
    assert_out_of_memory(trained, "keras")
