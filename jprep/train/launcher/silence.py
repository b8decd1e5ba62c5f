"""How long a worker has shown no sign of life."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from jprep.train.run.directory import HEARTBEAT
from jprep.train.run.events import EVENTS


class Silence:
    """Measures the time since a worker's last sign of life: a change of its heartbeat file or of its events.

    Create it when the attempt starts, and call `poll` regularly while the worker runs.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._signs, self._since = self._read_signs(), time.monotonic()
        self._exceeded = False

    @property
    def seconds(self) -> float:
        """Seconds since the last sign of life, or since the start."""
        return time.monotonic() - self._since

    def poll(self) -> bool:
        """Read the signs of life; return whether there is a new one."""
        signs = self._read_signs()
        if signs == self._signs:
            return False
        self._signs, self._since, self._exceeded = signs, time.monotonic(), False
        return True

    def exceeds_once(self, seconds: float) -> bool:
        """Return whether the silence is longer than some seconds; True only once in each silence."""
        if self._exceeded or self.seconds <= seconds:
            return False
        self._exceeded = True
        return True

    def _read_signs(self) -> tuple[int, ...]:
        """Return what changes while a worker is alive."""
        found = []
        for name in (HEARTBEAT, EVENTS):
            with contextlib.suppress(OSError):  # not created yet, or a transient error
                found.append((self._run / name).stat().st_mtime_ns)
        return tuple(found)
