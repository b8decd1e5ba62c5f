"""Signals: those that stop a run, and their names."""

from __future__ import annotations

import signal

TIME_LIMIT = signal.SIGUSR1
"""The signal by which a scheduler tells that the time limit is near."""

STOPPED, TO_BE_CONTINUED = 130, 75
"""Exit codes of a run: it was stopped; a scheduler should start it again, since hosts were lost or its time is over."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a run. SIGHUP is left out if it is ignored already, as under `nohup`."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return signal.SIGTERM, signal.SIGINT, TIME_LIMIT, *hang_up


def signal_name(number: int) -> str:
    """Return a signal's name; most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
