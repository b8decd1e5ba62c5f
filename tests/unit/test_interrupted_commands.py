"""Ctrl-C in a command: the first finishes running tasks, the second stops at once, further ones are ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from jprep.cli.common.interrupt import graceful_interrupt
from jprep.errors import Interrupted


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_are_as_before_after_a_block_that_ended() -> None:
    before = signal.getsignal(signal.SIGINT)
    with graceful_interrupt() as stopping:
        assert not stopping()
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("times", [1, 2])
def test_the_report_of_an_interruption_is_not_cut_off(times: int) -> None:
    with pytest.raises(Interrupted, match="to resume: "), graceful_interrupt() as stopping:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        assert stopping()
        raise Interrupted("a task noticed it")
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
