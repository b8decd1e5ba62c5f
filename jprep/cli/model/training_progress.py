"""Show the progress of a training on standard error: a bar on a terminal, else lines."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.cli.common.log_file import log_message, logging_to_file
from jprep.cli.common.output import quiet
from jprep.cli.common.progress import INTERVAL
from jprep.io.escaping import escaped, one_line

if TYPE_CHECKING:
    from jprep.train.job.config import Job
    from jprep.train.run.events import Event
    from jprep.train.run.status import RunStatus

_INTERVAL = 0.5  # seconds between two reads of the events
_MESSAGES = {"start": "training from", "validation": "validated at", "checkpoint": "saved"}


@contextlib.contextmanager
def show_training_progress(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    """Show a run's progress for the duration of the block; give a function that prints a note.

    Without a terminal a line is printed for each start, validation and checkpoint, and every half minute.
    """
    from jprep.train.run.log import on_stderr

    with contextlib.ExitStack() as stack:
        if not quiet() and not sys.stderr.isatty():
            yield stack.enter_context(_lines(run, job))
            return
        if logging_to_file():  # the terminal shows a bar, or nothing
            stack.enter_context(_following(run, _by_lines(job, log_message)))
        yield on_stderr if quiet() else stack.enter_context(_bar(run, job))


@contextlib.contextmanager
def _lines(run: Path, job: Job) -> Iterator[Callable[[str], None]]:
    from jprep.train.run.log import on_stderr

    with _following(run, _by_lines(job, on_stderr)) as show_new:

        def note(text: str) -> None:
            show_new()  # earlier events are shown before it
            on_stderr(text)

        yield note


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

    def note(text: str) -> None:
        log_message(text)
        with contextlib.suppress(OSError):  # the terminal was closed; the worker still saves a checkpoint
            progress.console.print(escaped(text), markup=False, highlight=False)

    progress.start()
    try:
        with _following(run, _by_bar(job, progress, note)):
            yield note
    finally:
        with contextlib.suppress(OSError):
            progress.stop()


def _by_bar(job: Job, progress: Any, note: Callable[[str], None]) -> Callable[[list[Event]], None]:
    from jprep.train.run.status import RunStatus

    status, bar = RunStatus(), progress.add_task(one_line(job.name), total=job.steps, figures="starting")

    def show(events: list[Event]) -> None:
        _note_profiles(events, note)
        status.add(events)
        progress.update(bar, completed=status.step, figures="  ".join(_figures(status, job)) or "starting")

    return show


def _by_lines(job: Job, note: Callable[[str], None]) -> Callable[[list[Event]], None]:
    """Return what prints a line for each start, validation and checkpoint, and at least one each `INTERVAL`."""
    from jprep.train.run.status import RunStatus

    status, shown_at, shown_step = RunStatus(), time.monotonic(), 0

    def line(message: str, step: int, figures: list[str]) -> None:
        nonlocal shown_at, shown_step
        shown_at, shown_step = time.monotonic(), step
        note("  ".join([f"{job.name}: {message} step {step:,} of {job.steps:,}", *figures]))

    def show(events: list[Event]) -> None:
        _note_profiles(events, note)
        for event in events:
            status.add([event])
            if message := _MESSAGES.get(event.kind):
                line(message, event.step, [] if event.kind == "start" else _figures(status, job))
        if status.step > shown_step and time.monotonic() - shown_at >= INTERVAL:
            line("at", status.step, _figures(status, job))

    return show


def _note_profiles(events: list[Event], note: Callable[[str], None]) -> None:
    for event in events:
        if event.kind == "profile":
            note(event.note)


@contextlib.contextmanager
def _following(run: Path, show: Callable[[list[Event]], None]) -> Iterator[Callable[[], None]]:
    """Show new events in a thread, for the supervisor needs the main one; give a function that shows them at once."""
    from jprep.train.run.events import EventReader

    reader, done, lock = EventReader(run), threading.Event(), threading.Lock()
    reader.new()  # skip those of earlier calls

    def show_new() -> None:
        with lock:
            show(reader.new())

    def follow() -> None:
        while not done.wait(_INTERVAL):
            show_new()

    thread = threading.Thread(target=follow, name="jprep-progress", daemon=True)
    thread.start()
    try:
        yield show_new
    finally:
        done.set()
        thread.join()
        show_new()


def _figures(status: RunStatus, job: Job) -> list[str]:
    shown = [] if status.loss is None else [f"loss {status.loss:.4f}"]
    if (held := status.validation.get("loss")) is not None:
        shown.append(f"validation loss {held:.4f}")
    if (best := job.train.checkpoint.best) != "loss" and (deciding := status.validation.get(best)) is not None:
        shown.append(f"{one_line(best)} {deciding:.4f}")
    if status.rate:
        shown.append(format_throughput(status.rate, job))
    if left := status.seconds_left(job.steps):
        shown.append(f"{timedelta(seconds=round(left))} left")
    return shown


def format_throughput(rate: float, job: Job) -> str:
    """Return the throughput in tokens per second, or in rows per second where rows are not all full."""
    train = job.train
    rows, full = rate * train.batch, train.packing == "stream" and not (train.data or train.next_sentence)
    full = full and not train.stages
    return f"{rows * train.length:,.0f} tokens/s" if full else f"{rows:,.1f} rows/s"
