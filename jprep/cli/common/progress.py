"""Show progress on standard error: a bar on a terminal, else a line every half minute; nothing under `--quiet`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from jprep.cli.common.log_file import log_message, logging_to_file
from jprep.cli.common.output import live, note, quiet
from jprep.engine.runner import ProgressReporter
from jprep.engine.stage import Receipt
from jprep.plurals import counted

INTERVAL = 30.0
"""Seconds between two lines, without a terminal."""

_MB = 1e6


class ProgressBar:
    """Show stages as a progress bar; see `jprep.engine.runner.ProgressReporter`."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._documents = 0
        self._bar: Any = None

    def begin(self, stage: str, total: int) -> None:
        """Begin a bar for a stage; without a total it pulses."""
        self._documents = 0
        self._bar = self._progress.add_task(stage, total=total or None, documents=0)

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Advance the bar. Work of an earlier run also moves the start time, so that it does not count for the rate."""
        self._documents += receipt.counts.get("total.documents", 0)
        self._progress.update(self._bar, advance=weight, documents=self._documents)
        if not fresh:
            self._progress.tasks[self._bar].start_time = self._progress.get_time()


class ProgressLines:
    """Describe the progress of a stage in a line; see `jprep.engine.runner.ProgressReporter`.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._stage, self._total = "hashing the inputs", 0
        self._done = self._fresh = self._documents = 0
        self._stage_began = self._began

    def begin(self, stage: str, total: int) -> None:
        """Begin a stage."""
        self._stage, self._total, self._stage_began = stage, total, self._clock()
        self._done = self._fresh = self._documents = 0

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Count a task. Work of an earlier run counts as done, but not for the rate."""
        self._done += weight
        self._fresh += weight if fresh else 0
        self._documents += receipt.counts.get("total.documents", 0)

    def line(self) -> str:
        """Return the progress: stage, share, bytes, documents, rate, time left and time spent."""
        now = self._clock()
        rate = self._fresh / (now - self._stage_began) if now > self._stage_began else 0.0
        parts = [self._stage]
        if self._total:
            parts[0] += f" {self._done / self._total:.0%}"
        if self._done:
            parts.append(f"{self._done / _MB:,.0f}" + (f" of {self._total / _MB:,.0f}" if self._total else "") + " MB")
        if self._documents:
            parts.append(counted(self._documents, "document"))
        if rate and self._total:
            parts.append(f"{rate / _MB:,.1f} MB/s, {_duration((self._total - self._done) / rate)} left")
        return f"{', '.join(parts)}; running for {_duration(now - self._began)}"


class _Several:
    """Report progress to several reporters."""

    def __init__(self, *reporters: ProgressReporter) -> None:
        self._reporters = reporters

    def begin(self, stage: str, total: int) -> None:
        for each in self._reporters:
            each.begin(stage, total)

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        for each in self._reporters:
            each.advance(weight, receipt, fresh=fresh)


@contextlib.contextmanager
def show_progress() -> Iterator[ProgressReporter | None]:
    """Show progress for the duration of the block; give its reporter, or None if nobody sees it.

    Lines also go to the log file, where a bar or nothing is shown on the terminal, too.
    """
    if quiet() and not logging_to_file():
        yield None
    elif not live():
        with _shown_lines(note) as lines:
            yield lines
    elif logging_to_file():
        with _bar() as bar, _shown_lines(log_message) as lines:
            yield _Several(bar, lines)
    else:
        with _bar() as bar:
            yield bar


@contextlib.contextmanager
def _shown_lines(show: Callable[[str], None]) -> Iterator[ProgressLines]:
    lines = ProgressLines()
    with call_periodically(INTERVAL, lambda: show(lines.line())):
        yield lines


@contextlib.contextmanager
def call_periodically(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Call a function at intervals in a thread for the duration of the block."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            with contextlib.suppress(OSError):  # standard error is closed; the work continues
                call()

    thread = threading.Thread(target=repeat, name="jprep-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def show_status(what: str) -> Iterator[Callable[[str], None]]:
    """Show the status of work of unknown length; give a function that takes its newest line of output.

    On a terminal one line is redrawn; otherwise a line is printed at intervals, and under `--verbose` every line.
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
        call_periodically(INTERVAL, lambda: log_message(now())),
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
