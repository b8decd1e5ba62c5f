"""What is said of the devices' pace."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest

from jprep_flax.worker import throughput
from jprep_flax.worker.throughput import ThroughputMeter


class Step:
    """A loss that is there when it is told to be."""

    def __init__(self) -> None:
        self.over = Event()

    def block_until_ready(self) -> None:
        assert self.over.wait(60)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(throughput.time, "monotonic", lambda: now[0])
    return now


def over() -> Step:
    step = Step()
    step.over.set()
    return step


def test_time_between_two_steps_is_idle_and_compiling_is_told_apart(clock: list[float]) -> None:
    with ThroughputMeter(epoch=10) as counted:
        clock[0] += 7
        counted.compiled(7.0)
        first = over()
        counted.begun(first, 300)
        counted._steps[-1][1].result()  # it ends at once
        clock[0] += 1  # the host has nothing ready
        counted.begun(over(), 100)
        counted._steps[-1][1].result()
        clock[0] += 1
        assert counted.figures() == {
            "tokens_per_second": 200.0, "idle": 0.5, "epoch_seconds": 10.0, "compiling": 7.0
        }  # fmt: skip
        clock[0] += 2
        counted.begun(over(), 50)
        assert counted.figures() == {"tokens_per_second": 25.0, "idle": 1.0, "epoch_seconds": 20.0}


def test_the_host_is_one_step_ahead_and_no_further() -> None:
    with ThroughputMeter(epoch=10) as counted:
        slow = Step()
        counted.begun(slow, 1)

        def end() -> None:
            time.sleep(0.05)
            slow.over.set()

        Thread(target=end).start()
        counted.begun(over(), 1)
        assert slow.over.is_set()
