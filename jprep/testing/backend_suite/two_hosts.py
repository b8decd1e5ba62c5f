"""A run of two machines that meet in its directory; both are this one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner
from jprep.train.launcher.launch import PreparedRun

_PATIENCE = 60.0  # seconds for the other machine to see that the run is over


def train_on_two_hosts(bench: SuiteRunner, name: str, options: Mapping[str, Any], **changes: Any) -> FinishedRun:
    """A case whose first worker is killed before its second checkpoint is there.

    Args:
        bench: the bench.
        name: the case.
        options: those that make it a run of two machines, on top of the bench's.
        changes: of the case's section.

    Raises:
        AssertionError: it did not end well on both.
    """
    prepared = bench.prepare(name, options, **changes)
    assert prepared.plan.processes == 2
    with _joining(prepared) as other:
        trained = bench.train(prepared, JPREP_FAILPOINT="run.committed@2")
        assert trained.code == 0, trained.said
        assert other.wait(_PATIENCE) == 0, "the other machine is to leave when the run is over"
    return trained


@contextmanager
def _joining(prepared: PreparedRun) -> Iterator[subprocess.Popen[bytes]]:
    """What the plan has a user type on the other machine."""
    command = prepared.plan.notes[-1].partition(": python ")[2].replace("NUMBER", "1")
    process = subprocess.Popen([sys.executable, *shlex.split(command)])
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
