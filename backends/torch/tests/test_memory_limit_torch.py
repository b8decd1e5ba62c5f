"""A run that runs out of memory on a CPU ends at once, and the message suggests a micro-batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.memory_limit import assert_out_of_memory, train_with_memory_limit


@pytest.mark.backends
def test_running_out_of_memory_on_a_cpu_is_not_retried(tmp_path: Path) -> None:
    trained = train_with_memory_limit(SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1}), 2.6)
    assert_out_of_memory(trained, "torch")
