"""Watch the launchers of an attempt, from the supervisor."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Plan
from jprep.train.hosts.files import CANNOT_START, HostState, read_host_state
from jprep.train.hosts.slurm import unavailable_nodes

NODE_SECONDS = "JPREP_NODE_SECONDS"
"""Environment variable: seconds without a sign of life after which a host is taken to be lost."""

_SILENT = 60.0
_LEAST = 2.0  # launchers write twice a second
_START = 300.0  # for a launcher to start: importing Python from a network file system is slow
_JOIN = 1800.0  # for an outer launcher to start its processes, some of them again
_POLL_SECONDS = 1.0


def seconds_until_lost() -> float:
    """Return the seconds without a sign of life after which a host is taken to be lost.

    Raises:
        ConfigError: the variable is not such a number.
    """
    text = os.environ.get(NODE_SECONDS, "")
    try:
        found = float(text) if text else _SILENT
    except ValueError:
        found = math.nan
    if not _LEAST <= found < math.inf:
        what = f"{text!r} is not a number of seconds, {_LEAST:g} or more"
        raise ConfigError(what, where=NODE_SECONDS, fix=f"e.g. export {NODE_SECONDS}={_SILENT:g}, or unset it")
    return found


class HostWatch:
    """Reads the states of the launchers of one attempt.

    Times are measured on this machine's clock only, and not while this process itself was held up.

    Args:
        run: the run directory.
        plan: the plan; without a placement there is nothing to watch.
        attempt: the attempt's name.
    """

    def __init__(self, run: Path, plan: Plan, attempt: str) -> None:
        self._run, self._attempt = run, attempt
        self.names = plan.placement.names if plan.placement else ()
        self._starter = plan.placement.starter if plan.placement else ""
        self._limit = seconds_until_lost() if self.names else _SILENT
        now = time.monotonic()
        self._states: dict[int, HostState] = {}
        self._lost: tuple[str, ...] | None = None
        self._changed = dict.fromkeys(range(len(self.names)), now)
        self._polled_at = now

    def poll(self) -> bool:
        """Read the states, at most once a second; return whether a host has failed or is lost."""
        now = time.monotonic()
        if not self.names or now - self._polled_at < _POLL_SECONDS:
            return False
        self._read()
        return bool(self.failed() or self.lost())

    def failed(self) -> str:
        """Return the host whose processes have failed, as a reason; "" if there is none."""
        for number, state in sorted(self._states.items()):
            if state.code:
                return f"a process on {self.names[number]} ended with code {state.code}"
        return ""

    def lost(self) -> tuple[str, ...]:
        """Return the names of hosts that show no sign of life or could not be started."""
        if self._lost is not None:
            return self._lost
        return tuple(self.names[number] for number in range(len(self.names)) if self._is_lost(number))

    def settle(self, starter: subprocess.Popen[bytes], hurry: Callable[[], bool]) -> None:
        """Wait, after the end of the attempt, until each launcher has ended or is lost.

        Args:
            starter: the program that starts launchers.
            hurry: returns whether not to wait.
        """
        while not all(self._has_settled(number, starter) for number in range(len(self.names))) and not hurry():
            time.sleep(_POLL_SECONDS / 5)
            self._read()
        absent = [name for number, name in enumerate(self.names) if number not in self._states]
        down = unavailable_nodes(absent) if absent and self._starter == "srun" else set()
        self._lost = tuple(name for number, name in enumerate(self.names) if self._is_lost(number) or name in down)

    def _read(self) -> None:
        now = time.monotonic()
        if (gap := now - self._polled_at) > 5 * _POLL_SECONDS:  # this process or the file system was held up
            self._changed = {number: changed + gap for number, changed in self._changed.items()}
        self._polled_at = now
        for number in range(len(self.names)):
            state = read_host_state(self._run, self._attempt, number)
            if state and state != self._states.get(number):
                self._states[number], self._changed[number] = state, now

    def _has_settled(self, number: int, starter: subprocess.Popen[bytes]) -> bool:
        state = self._states.get(number)
        if state is None:
            return starter.poll() is not None or time.monotonic() - self._changed[number] > self._limit
        return state.code is not None or self._is_lost(number)

    def _is_lost(self, number: int) -> bool:
        state, silent = self._states.get(number), time.monotonic() - self._changed[number]
        if state is None:
            return silent > max(_JOIN if self._starter == "join" else _START, self._limit)
        return state.code == CANNOT_START if state.code is not None else silent > self._limit
