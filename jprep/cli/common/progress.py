"""Progress on standard error: a bar on a terminal, else a line every half minute; nothing under `--quiet`."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from jprep.cli.common.output import live, note, quiet
from jprep.engine.runner import ProgressReporter
from jprep.engine.stage import Receipt

INTERVAL = 30.0
"""Seconds between two lines, off a terminal."""

_NAMES = {"documents": "reading", "dedup": "comparing", "words": "segmenting"}
_MB = 1e6


class ProgressBar:
    """Shows a build as a bar; see `jprep.engine.runner.ProgressReporter`."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._documents = 0
        self._bar: Any = None

    def begin(self, stage: str, total: int) -> None:
        """Begin a bar for a stage; without a total it only pulses."""
        self._documents = 0
        self._bar = self._progress.add_task(_NAMES.get(stage, stage), total=total or None, documents=0)

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Move it. Work of an earlier run moves the bar's beginning, or the rate would be too good."""
        self._documents += receipt.counts.get("total.documents", 0)
        self._progress.update(self._bar, advance=weight, documents=self._documents)
        if not fresh:
            self._progress.tasks[self._bar].start_time = self._progress.get_time()


class ProgressLines:
    """Describes a build in a line; see `jprep.engine.runner.ProgressReporter`.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._stage, self._total = "looking at the inputs", 0
        self._done = self._fresh = self._documents = 0
        self._stage_began = self._began

    def begin(self, stage: str, total: int) -> None:
        """Begin a stage."""
        self._stage, self._total, self._stage_began = _NAMES.get(stage, stage), total, self._clock()
        self._done = self._fresh = self._documents = 0

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Count a task. Work of an earlier run counts as done, and not for the rate."""
        self._done += weight
        self._fresh += weight if fresh else 0
        self._documents += receipt.counts.get("total.documents", 0)

    def line(self) -> str:
        """Return how far the build is: stage, share, bytes, documents, rate, time left and time spent."""
        now = self._clock()
        rate = self._fresh / (now - self._stage_began) if now > self._stage_began else 0.0
        parts = [self._stage]
        if self._total:
            parts[0] += f" {self._done / self._total:.0%}"
        if self._done:
            parts.append(f"{self._done / _MB:,.0f}" + (f" of {self._total / _MB:,.0f}" if self._total else "") + " MB")
        if self._documents:
            parts.append(f"{self._documents:,} documents")
        if rate and self._total:
            parts.append(f"{rate / _MB:,.1f} MB/s, {_duration((self._total - self._done) / rate)} left")
        return f"{', '.join(parts)}; running for {_duration(now - self._began)}"


@contextlib.contextmanager
def show_progress() -> Iterator[ProgressReporter | None]:
    """Show progress for the time of the block: give what is told of it, or None under `--quiet`."""
    if quiet():
        yield None
    elif not sys.stderr.isatty():
        lines = ProgressLines()
        with call_periodically(INTERVAL, lambda: note(lines.line())):
            yield lines
    else:
        with _bar() as shown:
            yield shown


@contextlib.contextmanager
def call_periodically(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Call a function at intervals, in a thread, for the time of the block."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            with contextlib.suppress(OSError):  # nobody reads it: the work goes on
                call()

    thread = threading.Thread(target=repeat, name="jprep-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def show_status(what: str) -> Iterator[Callable[[str], None]]:
    """Show that something without a known length goes on; give a function that takes its newest line of output.

    On a terminal one line is redrawn; else a line is printed at intervals, and under `--verbose` each one.
    """
    from jprep.cli.common.output import verbose

    lines, began = [""], time.monotonic()

    def now() -> str:
        return f"{what}, {_duration(time.monotonic() - began)}" + (f": {lines[-1][:100]}" if lines[-1] else "")

    def say(line: str) -> None:
        lines[:] = [line]
        if verbose():
            note(line)

    if not live():
        with call_periodically(INTERVAL, lambda: note(now())):
            yield say
        return
    from rich.console import Console
    from rich.text import Text

    from jprep.io.escaping import one_line

    with (
        Console(stderr=True).status(Text(what)) as shown,
        call_periodically(0.2, lambda: shown.update(Text(one_line(now())))),
    ):
        yield say


@contextlib.contextmanager
def _bar() -> Iterator[ProgressBar]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description:<10}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TextColumn("{task.fields[documents]:,} documents"),
        rich.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as progress:
        yield ProgressBar(progress)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
