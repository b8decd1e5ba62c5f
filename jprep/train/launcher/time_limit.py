"""SIGUSR1, a scheduler's sign that the time limit is near, while no supervisor handles it: there is nothing to save."""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from types import FrameType

from jprep.train.hosts.requeue import requeue_job
from jprep.train.launcher.signals import TIME_LIMIT, TO_BE_CONTINUED


class TimeLimit(SystemExit):
    """The end of this process at the time limit; its code is `TO_BE_CONTINUED`."""


class _State:
    is_caught = False
    is_reached = False


def end_at_time_limit() -> None:
    """Let SIGUSR1 end this process with code 75, unless a supervisor handles the signal.

    Raises:
        TimeLimit: there was such a signal, and code that swallows all exceptions has swallowed its.
    """
    if _State.is_reached:
        raise TimeLimit(TO_BE_CONTINUED)
    if threading.current_thread() is threading.main_thread():
        signal.signal(TIME_LIMIT, _end)


def ignore_time_limit() -> None:
    """Let SIGUSR1 do nothing from now on: what is left to do takes no time."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(TIME_LIMIT, signal.SIG_IGN)


def catch_time_limit() -> None:
    """Say that the caller catches `TimeLimit` and calls `end_early`; before, the end of Python does the latter."""
    _State.is_caught = True


def end_early() -> int:
    """Requeue this process's job, if it may, and say so; return the exit code."""
    done = requeue_job() or "the same command continues"
    sys.stderr.write(f"jprep: the time limit is near: ended before all was done; {done}\n")
    return TO_BE_CONTINUED


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(TIME_LIMIT, signal.SIG_IGN)
    _State.is_reached = True
    if not _State.is_caught:
        atexit.register(end_early)  # last: the scheduler may kill a job that it requeues
    raise TimeLimit(TO_BE_CONTINUED)
