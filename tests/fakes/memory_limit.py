"""Run a real worker with less memory than its micro-batch needs."""

from __future__ import annotations

import msgspec

from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner

ROWS = 16_384
CHANGES = {"batch": ROWS, "steps": 3, "schedule": {}, "validation": {"every_steps": 0}}


def train_with_memory_limit(bench: SuiteRunner, gibibytes: float, **env: str) -> FinishedRun:
    """Train a case whose batch is large, with a limit of the worker's address space (`ulimit -v`)."""
    prepared = bench.prepare("gpt2-clm", **CHANGES)
    limit = f'ulimit -v {int(gibibytes * (1 << 20))}; exec "$@"'
    plan = msgspec.structs.replace(prepared.plan, argv=("/bin/sh", "-c", limit, "sh", *prepared.plan.argv))
    return bench.train(prepared._replace(plan=plan), **env)


def assert_out_of_memory(trained: FinishedRun, backend: str) -> None:
    """Assert that the worker was started once, and that the message names a smaller micro-batch."""
    assert trained.code == 3, trained.messages
    assert [event.step for event in trained.events() if event.kind == "start"] in ([0], [])
    assert "out of memory" in trained.messages
    assert f"--set train.backend.{backend}.micro_batch=" in trained.messages
