"""The progress and throughput of a run, read from its events."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jprep.train.run.events import Event, read_events


class RunStatus:
    """The state of a run after the events given to `add`.

    Attributes:
        step: the number of updates done.
        saved: the step of the newest checkpoint.
        loss: the loss logged last; None if none was logged.
        validation: the last validation metrics, `loss` among them; empty if none were measured.
        rate: updates per second since the last start, without the time before the first logged step if there are
            several; None if unknown.
    """

    def __init__(self) -> None:
        self.step = self.saved = 0
        self.loss: float | None = None
        self.validation: dict[str, float | None] = {}
        self.rate: float | None = None
        self._since = (0.0, 0)
        self._warm = False

    def add(self, events: Iterable[Event]) -> None:
        """Add further events, in order."""
        for event in events:
            if event.kind == "start":
                self.step = self.saved = event.step
                self._since, self._warm = (event.time, event.step), False
            elif event.kind == "log":
                self.step, self.loss = event.step, event.figures.get("loss")
                self._measure(event)
            elif event.kind == "validation":
                self.validation = event.figures
            elif event.kind == "checkpoint":
                self.saved = event.step

    def seconds_left(self, steps: int) -> float | None:
        """Estimate the seconds until a step is reached at the current rate; None if the rate is unknown."""
        return (steps - self.step) / self.rate if self.rate else None

    def _measure(self, event: Event) -> None:
        time, step = self._since
        if event.time > time and event.step > step:
            self.rate = (event.step - step) / (event.time - time)
        if not self._warm:
            self._since, self._warm = (event.time, event.step), True


def read_status(run: Path) -> RunStatus:
    """Return the state of a run after all of its events so far."""
    status = RunStatus()
    status.add(read_events(run))
    return status
