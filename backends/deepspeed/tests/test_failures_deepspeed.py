"""Ranks that die or hang, and a port that is in use: the run resumes, or names the problem."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner, wait_until
from jprep.train.run.ranks import live_ranks

OPTIONS = {"device": "cpu", "threads": 1, "stage": 2, "processes": 2}
CASE = "gpt2-clm"
SECTION: dict[str, Any] = {"steps": 60, "checkpoint": {"every_steps": 10}, "validation": {"every_steps": 0}}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
    return SuiteRunner(tmp_path_factory.mktemp("failing"), "deepspeed", OPTIONS)


def disturbed(bench: SuiteRunner, disturb: Callable[[Path], None], **section: Any) -> FinishedRun:
    """Train, and disturb the run as soon as it has a checkpoint."""
    prepared = bench.prepare(CASE, **SECTION | section)

    def later() -> None:
        wait_until(lambda: list(prepared.run.glob("checkpoints/step-*")), 600, "a checkpoint")
        disturb(prepared.run)

    thread = threading.Thread(target=later)
    thread.start()
    trained = bench.train(prepared)
    thread.join()
    return trained


def starts(trained: FinishedRun) -> list[int]:
    return [event.step for event in trained.events() if event.kind == "start"]


def signal_second_rank(number: signal.Signals) -> Callable[[Path], None]:
    return lambda run: os.kill(live_ranks(run)[1], number)


def test_a_run_resumes_from_its_checkpoint_after_a_rank_dies(bench: SuiteRunner) -> None:
    trained = disturbed(bench, signal_second_rank(signal.SIGKILL))
    assert trained.code == 0, trained.messages
    assert len(starts(trained)) == 2 and starts(trained)[1] % 10 == 0
    assert "SIGKILL" in trained.messages
    uninterrupted = bench.trained(CASE, **SECTION)
    assert trained.losses() == uninterrupted.losses()
    assert bench.exported(trained).read_bytes() == bench.exported(uninterrupted).read_bytes()


@pytest.mark.soak
def test_a_rank_that_hangs_is_restarted(bench: SuiteRunner) -> None:
    trained = disturbed(bench, signal_second_rank(signal.SIGSTOP), silent_minutes=0.7)
    assert trained.code == 0, trained.messages
    assert "no sign of life for 0.7 minutes" in trained.messages and len(starts(trained)) == 2
    assert trained.losses() == bench.trained(CASE, **SECTION).losses()


@pytest.mark.parametrize(("launcher", "code"), [("torchrun", 1), pytest.param("deepspeed", 3, marks=pytest.mark.soak)])
def test_a_port_in_use_is_named(bench: SuiteRunner, launcher: str, code: int) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = {"port": port, "launcher": launcher}
        trained = bench.train(bench.prepare(CASE, options, **SECTION | {"max_restarts": 0}))
    assert trained.code == code
    assert str(port) in trained.messages and "EADDRINUSE" in trained.messages


@pytest.mark.soak
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_resumed_run_of_four_ranks_has_the_same_bits(bench: SuiteRunner, stage: int) -> None:
    weights = []
    short = SECTION | {"steps": 8, "checkpoint": {"every_steps": 2}}
    for fault in ({}, {"JPREP_FAILPOINT": "run.committed@2"}):
        trained = bench.train(bench.prepare(CASE, {"processes": 4, "stage": stage}, **short), **fault)
        assert trained.code == 0, trained.messages
        weights.append(bench.exported(trained).read_bytes())
    assert weights[0] == weights[1]
