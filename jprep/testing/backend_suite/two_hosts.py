"""Train a run on two hosts that share its directory; both are this machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner
from jprep.train.launcher.launch import PreparedRun

_TIMEOUT = 600.0  # seconds for the other host to see that the run is over


def train_on_two_hosts(bench: SuiteRunner, name: str, options: Mapping[str, Any], **changes: Any) -> FinishedRun:
    """Train a case on two hosts. The first worker is killed before its second checkpoint.

    Args:
        bench: the suite's runner.
        name: the case.
        options: backend options for two hosts, on top of those of all runs.
        changes: changes of the case's section.

    Raises:
        AssertionError: it failed on one of them.
    """
    prepared = bench.prepare(name, options, **changes)
    assert prepared.plan.processes == 2
    with _joining(prepared) as other:
        trained = bench.train(prepared, JPREP_FAILPOINT="run.committed@2")
        assert trained.code == 0, trained.messages
        assert other.wait(_TIMEOUT) == 0, "the other host must exit when the run is over"
    return trained


@contextmanager
def _joining(prepared: PreparedRun) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command that the plan prints for the other host."""
    _, *command = shlex.split(prepared.plan.notes[-1].rpartition("): ")[2].replace("NUMBER", "1"))
    process = subprocess.Popen([sys.executable, *command])
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
