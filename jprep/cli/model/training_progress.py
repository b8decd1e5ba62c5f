"""A training's progress on standard error: a bar on a terminal, else lines; step, loss, pace and time left."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.cli.common.output import quiet
from jprep.io.escaping import escaped, one_line

if TYPE_CHECKING:
    from jprep.train.job.config import Job
    from jprep.train.run.events import Event
    from jprep.train.run.status import RunStatus

_EVERY = 0.5  # seconds between two looks at the events
_TOLD = {"start": "training from", "validation": "validated at", "checkpoint": "saved"}


@contextlib.contextmanager
def show_training_progress(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    """Follow a run's events for the time of the block; give a function that tells the user something.

    Off a terminal a line tells of each start, validation and checkpoint.
    """
    from jprep.train.run.log import on_stderr

    if quiet():
        yield on_stderr
        return
    with _bar(run, job) if sys.stderr.isatty() else _lines(run, job) as say:
        yield say


@contextlib.contextmanager
def _lines(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    from jprep.train.run.log import on_stderr

    with _following(run, _by_lines(job, on_stderr)) as look:

        def say(text: str) -> None:
            look()  # earlier events are shown before it
            on_stderr(text)

        yield say


@contextlib.contextmanager
def _bar(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[figures]}", markup=False),
    )
    progress = rich.Progress(*columns, console=Console(stderr=True))

    def tell(text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed: the worker still saves
            progress.console.print(escaped(text), markup=False, highlight=False)

    progress.start()
    try:
        with _following(run, _by_bar(job, progress)):
            yield tell
    finally:
        with contextlib.suppress(OSError):
            progress.stop()


def _by_bar(job: Job, progress: Any) -> Callable[[list[Event]], None]:
    from jprep.train.run.status import RunStatus

    standing, bar = RunStatus(), progress.add_task(one_line(job.name), total=job.steps, figures="starting")

    def show(events: list[Event]) -> None:
        standing.add(events)
        progress.update(bar, completed=standing.step, figures="  ".join(_figures(standing, job)) or "starting")

    return show


def _by_lines(job: Job, tell: Callable[[str], None]) -> Callable[[list[Event]], None]:
    from jprep.train.run.status import RunStatus

    standing = RunStatus()

    def show(events: list[Event]) -> None:
        for event in events:
            standing.add([event])
            if told := _TOLD.get(event.kind):
                figures = [] if event.kind == "start" else _figures(standing, job)
                tell("  ".join([f"{job.name}: {told} step {event.step:,} of {job.steps:,}", *figures]))

    return show


@contextlib.contextmanager
def _following(run: Path, show: Callable[[list[Event]], None]) -> Iterator[Callable[[], None]]:
    """A thread that shows new events, for the supervisor has the main one for its signals; give what shows them now."""
    from jprep.train.run.events import EventReader

    follower, done, looking = EventReader(run), threading.Event(), threading.Lock()
    follower.new()  # those of earlier calls

    def look() -> None:
        with looking:
            show(follower.new())

    def follow() -> None:
        while not done.wait(_EVERY):
            look()

    thread = threading.Thread(target=follow, name="jprep-progress", daemon=True)
    thread.start()
    try:
        yield look
    finally:
        done.set()
        thread.join()
        look()


def _figures(standing: RunStatus, job: Job) -> list[str]:
    shown = [] if standing.loss is None else [f"loss {standing.loss:.4f}"]
    if (held := standing.validation.get("loss")) is not None:
        shown.append(f"validation loss {held:.4f}")
    if standing.rate:
        shown.append(format_throughput(standing.rate, job))
    if left := standing.seconds_left(job.steps):
        shown.append(f"{timedelta(seconds=round(left))} left")
    return shown


def format_throughput(rate: float, job: Job) -> str:
    """Updates a second, as what a user counts: tokens, or rows where these are not all full."""
    rows, full = rate * job.train.batch, job.train.packing == "stream" and not job.train.data
    return f"{rows * job.train.length:,.0f} tokens/s" if full else f"{rows:,.1f} rows/s"
