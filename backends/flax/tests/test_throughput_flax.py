"""Throughput and idle time."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest

from jprep_flax.worker import throughput
from jprep_flax.worker.throughput import ThroughputMeter


class Step:
    """A loss that is ready once `over` is set."""

    def __init__(self) -> None:
        self.over = Event()

    def block_until_ready(self) -> None:
        assert self.over.wait(600)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(throughput.time, "monotonic", lambda: now[0])
    return now


def finished_step() -> Step:
    step = Step()
    step.over.set()
    return step


def test_time_between_steps_is_idle_and_compilation_is_measured_apart(clock: list[float]) -> None:
    with ThroughputMeter(steps_per_epoch=10) as meter:
        clock[0] += 7
        meter.exclude_compilation(7.0)
        first = finished_step()
        meter.step_started(first, 300)
        meter._running[-1][1].result()  # it ends at once
        clock[0] += 1  # the host has nothing ready
        meter.step_started(finished_step(), 100)
        meter._running[-1][1].result()
        clock[0] += 1
        assert meter.figures() == {
            "tokens_per_second": 200.0, "idle": 0.5, "epoch_seconds": 10.0, "compiling": 7.0
        }  # fmt: skip
        clock[0] += 2
        meter.step_started(finished_step(), 50)
        assert meter.figures() == {"tokens_per_second": 25.0, "idle": 1.0, "epoch_seconds": 20.0}


def test_the_host_stays_one_step_ahead() -> None:
    with ThroughputMeter(steps_per_epoch=10) as meter:
        slow = Step()
        meter.step_started(slow, 1)

        def end() -> None:
            time.sleep(0.05)
            slow.over.set()

        Thread(target=end).start()
        meter.step_started(finished_step(), 1)
        assert slow.over.is_set()
