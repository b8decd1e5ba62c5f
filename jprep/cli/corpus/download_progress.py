"""Show the progress of downloads: one line is redrawn on a terminal; elsewhere a line is printed now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from jprep.cli.common.log_file import log_message
from jprep.cli.common.output import live, note, redraw
from jprep.cli.common.progress import INTERVAL
from jprep.io.escaping import one_line

_REDRAWN = 0.1  # seconds between two changes of the line


class DownloadProgress:
    """Show how far each file is, its rate, and the time left. An instance is the callback of a download.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._name = ""
        self._began, self._first = 0.0, 0
        self._drawn = self._said = 0.0

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show that `done` bytes of a file are there; `total` is not positive where its size is unknown.

        What an earlier download has left does not count for the rate.
        """
        now = self._clock()
        if name != self._name:
            self._name, self._began, self._first = name, now, done
            self._drawn, self._said = 0.0, now
        finished = done == total
        if live() and (finished or now - self._drawn >= _REDRAWN):
            self._drawn = now
            redraw(self._line(done, total, now), done=finished)
        if finished or now - self._said >= INTERVAL:
            self._said = now
            (log_message if live() else note)(self._line(done, total, now))

    def _line(self, done: int, total: int, now: float) -> str:
        parts = [f"{done / 1e6:,.0f} MB" if total <= 0 else f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"]
        if total > 0:
            parts.append(f"{done / total:.0%}")
        seconds = now - self._began
        if seconds > 0 and done > self._first:
            rate = (done - self._first) / seconds
            parts.append(f"{rate / 1e6:,.1f} MB/s")
            if total > done:
                parts.append(f"{timedelta(seconds=round((total - done) / rate))} left")
        return f"{one_line(self._name)}  {', '.join(parts)}"
