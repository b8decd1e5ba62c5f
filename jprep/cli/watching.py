"""A training's progress on standard error, where that is a terminal: step, loss, pace and time left."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jprep.train.job import Job
    from jprep.train.standing import Standing

_EVERY = 0.5  # seconds between two looks at the events


@contextlib.contextmanager
def watching(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    """Follow a run's events for the time of the block; give a function that tells the user something.

    Off a terminal nothing is drawn.
    """
    from jprep.train.log import on_stderr

    if not sys.stderr.isatty():
        yield on_stderr
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[figures]}"),
    )
    progress = rich.Progress(*columns, console=Console(stderr=True))

    def tell(text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed: the worker still saves
            progress.console.print(text, markup=False, highlight=False)

    progress.start()
    try:
        with _following(run, job, progress):
            yield tell
    finally:
        with contextlib.suppress(OSError):
            progress.stop()


@contextlib.contextmanager
def _following(run: Path, job: Job, progress: Any) -> Iterator[None]:
    """A thread that moves a bar: the supervisor has the main one, for its signals."""
    from jprep.train.events import Follower
    from jprep.train.standing import Standing

    follower, standing, done = Follower(run), Standing(), threading.Event()
    bar = progress.add_task(job.name, total=job.steps, figures="starting")

    def look() -> None:
        standing.add(follower.new())
        progress.update(bar, completed=standing.step, figures=_figures(standing, job))

    def follow() -> None:
        while not done.wait(_EVERY):
            look()

    thread = threading.Thread(target=follow, name="jprep-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        look()


def _figures(standing: Standing, job: Job) -> str:
    shown = [] if standing.loss is None else [f"loss {standing.loss:.4f}"]
    if (held := standing.validation.get("loss")) is not None:
        shown.append(f"validation {held:.4f}")
    if standing.rate:
        shown.append(pace(standing.rate, job))
    if left := standing.seconds_left(job.steps):
        shown.append(f"{timedelta(seconds=round(left))} left")
    return "  ".join(shown) or "starting"


def pace(rate: float, job: Job) -> str:
    """Updates a second, as what a user counts: tokens, or rows of labelled data."""
    rows = rate * job.train.batch
    return f"{rows:,.1f} rows/s" if job.train.data else f"{rows * job.train.length:,.0f} tokens/s"
