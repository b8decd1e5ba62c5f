"""Signals: those that stop a run, their names, and the ranks that one has killed."""

from __future__ import annotations

import re
import signal

TIME_LIMIT = signal.SIGUSR1
"""The signal by which a scheduler tells that the time limit is near."""

STOPPED, TO_BE_CONTINUED = 130, 75
"""Exit codes of a run: it was stopped; a scheduler should start it again, since hosts were lost or its time is over."""

_TORCHRUN = re.compile(r"^ *rank +: (\d+) .*\n *exitcode +: (-?\d+) ", re.MULTILINE)
_CONSEQUENCES = (signal.SIGABRT, signal.SIGTERM)
"""Signals by which the peers of a rank end that has failed."""

_DEEPSPEED = re.compile(r"exits with return code = -(\d+)$", re.MULTILINE)


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


def killed_rank(output: str) -> str:
    """Return which rank was killed by a signal, as torchrun or DeepSpeed's launcher says it; "" if they say nothing.

    The peers of a killed rank fail as well, by an exception or SIGABRT, and torchrun may take one for the first.
    """
    ends = [(int(found[1]), int(found[2])) for found in _TORCHRUN.finditer(output)]
    failed = any(code > 0 for _, code in ends)
    killed = [(rank, -code) for rank, code in ends if code < 0]
    direct = [end for end in killed if end[1] not in _CONSEQUENCES]
    if direct or (killed and not failed):
        rank, number = direct[0] if direct else min(killed, key=lambda end: end[1] == signal.SIGTERM)
        return f"rank {rank} was killed by {signal_name(number)}"
    if found := _DEEPSPEED.search(output):
        return f"a rank was killed by {signal_name(int(found[1]))}"
    return ""
