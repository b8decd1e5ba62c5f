"""The signals that stop a run, and the names of signals in messages."""

from __future__ import annotations

import signal

import pytest

from jprep.train.launcher.signals import signal_name, stop_signals


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGKILL, "SIGKILL"),
        (signal.SIGRTMIN, "SIGRTMIN"),
        (signal.SIGRTMIN + 3, f"signal {signal.SIGRTMIN + 3}"),
    ],
)
def test_every_signal_has_a_name(number: int, name: str) -> None:
    assert signal_name(number) == name


def test_sighup_stops_a_run_unless_it_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert signal.SIGHUP in stop_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert stop_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGHUP, before)
