"""The history of a run, read from its events once: curves, starts, checkpoints, interruptions and totals."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.train.evaluation.records import Evaluation, read_evaluations
from jprep.train.job.best import best_figure
from jprep.train.job.config import Job
from jprep.train.run.commit import best_first
from jprep.train.run.directory import checkpoints_of, read_job
from jprep.train.run.events import Event, iter_events

POINTS = 400
"""Points of a drawn curve; more values are averaged in groups."""

_NOTES = 40  # interruptions that are listed
_INTERRUPTIONS = ("restart", "signal", "damaged", "rewind")
_BEFORE_WORKER = ("start", "damaged", "rewind")  # events that show that no worker ran until then
_ENDINGS = ("end", "signal", "restart")  # of an attempt
KILLED = "killed"
"""Kind of the moment when an attempt without an ending is found, which no event records."""


class Curve(NamedTuple):
    """Values over steps, and over the hours since the run's first start.

    Attributes:
        steps: steps in ascending order.
        hours: the time of each.
        values: the value of each.
        grouped: how many logged values a point is the mean of.
    """

    steps: Sequence[float]
    hours: Sequence[float]
    values: Sequence[float]
    grouped: int = 1


class Moment(NamedTuple):
    """Something that happened once.

    Attributes:
        kind: kind of its event, or `KILLED`.
        step: the number of updates done.
        hours: hours since the run's first start.
        note: a message.
    """

    kind: str
    step: int
    hours: float
    note: str


class KeptCheckpoint(NamedTuple):
    """A checkpoint that exists.

    Attributes:
        step: the number of updates done.
        loss: the validation loss; None if it was not measured.
        best: whether it is the best one by the figure that the job names.
    """

    step: int
    loss: float | None
    best: bool


class RunHistory(NamedTuple):
    """Everything that a report about a run shows, except samples of text.

    Attributes:
        folder: the run directory.
        job: its job.
        training: curves of logged figures by name, `loss` first.
        validation: curves of validation figures by name.
        undefined: logged steps at which the training loss was infinite or not a number.
        moments: starts and interruptions, in order; at most the first 40 interruptions.
        saved: steps of checkpoints as they were saved, even if they were deleted later.
        checkpoints: the checkpoints that exist.
        evaluations: the figures of `jprep evaluate`.
        step: the number of updates done.
        hours: hours from the first start to the last event.
        working_hours: hours in which a worker ran.
        starts: number of starts.
        interruptions: number of kills, restarts, signals, damaged checkpoints and rewinds.
        finished: whether all steps are done, or nothing improved any more.
        end_note: the error that the run ended with, or why it ended early; "" for neither.
        events: number of events.
    """

    folder: Path
    job: Job
    training: dict[str, Curve]
    validation: dict[str, Curve]
    undefined: list[int]
    moments: list[Moment]
    saved: list[int]
    checkpoints: list[KeptCheckpoint]
    evaluations: list[Evaluation]
    step: int
    hours: float
    working_hours: float
    starts: int
    interruptions: int
    finished: bool
    end_note: str
    events: int


def read_history(run: Path) -> RunHistory:
    """Read the history of a run, which may be training meanwhile.

    Raises:
        ConfigError: there is no run, or its job.json is damaged.
        MachineError: a file cannot be read.
    """
    job, reader = read_job(run), _Reader()
    for event in iter_events(run):
        reader.add(event)
    return RunHistory(
        folder=run,
        job=job,
        training=reader.curves("log"),
        validation=reader.curves("validation"),
        undefined=list(reader.undefined.steps),
        moments=reader.moments,
        saved=reader.saved,
        checkpoints=_checkpoints(run, job),
        evaluations=read_evaluations(run, job),
        step=reader.step,
        hours=reader.hours(reader.last),
        working_hours=reader.working / 3600,
        starts=reader.starts,
        interruptions=reader.interruptions,
        finished=reader.ended and not reader.end_code,
        end_note=reader.end_note,
        events=reader.events,
    )


def _checkpoints(run: Path, job: Job) -> list[KeptCheckpoint]:
    commits = [checkpoint.commit for checkpoint in checkpoints_of(run, job).committed()]
    order = best_first(commits, best_figure(job.train.checkpoint))
    best = order[0].step if order else -1
    return [KeptCheckpoint(commit.step, commit.loss, commit.step == best) for commit in commits]


class _Values:
    """Values by step. A start at an earlier step discards those after it."""

    def __init__(self) -> None:
        self.steps, self.times, self.values = array("q"), array("d"), array("d")

    def add(self, step: int, time: float, value: float) -> None:
        self.discard_after(step - 1)
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def discard_after(self, step: int) -> None:
        while self.steps and self.steps[-1] > step:
            for column in (self.steps, self.times, self.values):
                column.pop()


class _Reader:
    """Collects events in order, with a few numbers for each logged value."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Values] = {}
        self.undefined = _Values()
        self.moments: list[Moment] = []
        self.saved: list[int] = []
        self.first = self.last = self.working = 0.0
        self.step = self.starts = self.interruptions = self.events = 0
        self.ended, self.end_note, self.end_code = False, "", 0
        self._training = False  # whether the present attempt has no ending

    def hours(self, time: float) -> float:
        """Return the hours since the first event."""
        return max(0.0, time - self.first) / 3600

    def add(self, event: Event) -> None:
        """Add the next event."""
        self.events += 1
        self.first = self.first or event.time
        self._follow_attempt(event)
        if event.kind == "start":
            self._start(event)
        self.last = event.time
        if event.kind in ("log", "validation"):
            self.step = event.step if event.kind == "log" else self.step
            self._figures(event)
        elif event.kind == "checkpoint":
            self.saved.append(event.step)
        elif event.kind == "end":
            self.ended, self.end_note = True, event.note
            self.end_code = int(event.figures.get("code") or 0)
        elif event.kind in _INTERRUPTIONS:
            self.interruptions += 1
            self._note(event)

    def _follow_attempt(self, event: Event) -> None:
        """Count the time since the last event if a worker ran, and an attempt that was killed."""
        if self._training and event.kind in _BEFORE_WORKER:
            self.interruptions += 1
            self._note(Event(self.last, self.step, event.kind), KILLED)
        elif self._training:
            self.working += max(0.0, event.time - self.last)
        if event.kind in _BEFORE_WORKER or event.kind in _ENDINGS:
            self._training = event.kind == "start"

    def _start(self, event: Event) -> None:
        self.starts += 1
        self.ended, self.end_note, self.step = False, "", event.step
        for values in [self.undefined, *self._found.values()]:
            values.discard_after(event.step)
        self._note(event)

    def _note(self, event: Event, kind: str = "") -> None:
        if len(self.moments) < _NOTES:
            self.moments.append(Moment(kind or event.kind, event.step, self.hours(event.time), event.note))

    def _figures(self, event: Event) -> None:
        for name, value in event.figures.items():
            if value is not None and math.isfinite(value):
                self._found.setdefault((event.kind, name), _Values()).add(event.step, event.time, value)
            elif (event.kind, name) == ("log", "loss"):
                self.undefined.add(event.step, event.time, math.nan)

    def curves(self, kind: str) -> dict[str, Curve]:
        """Return the curves of a kind of event by the figure's name."""
        names = sorted((name != "loss", name) for found, name in self._found if found == kind)
        return {name: self._curve(self._found[kind, name]) for _, name in names if self._found[kind, name].steps}

    def _curve(self, found: _Values) -> Curve:
        hours = [self.hours(time) for time in found.times]
        size = -(-len(found.steps) // POINTS)
        return Curve(_means(found.steps, size), _means(hours, size), _means(found.values, size), size)


def _means(values: Sequence[float], size: int) -> list[float]:
    """Return the means of groups of a size."""
    if size == 1:
        return [float(value) for value in values]
    groups = (values[start : start + size] for start in range(0, len(values), size))
    return [math.fsum(group) / len(group) for group in groups]
