"""How far a run has come and how fast it goes, read from its events."""

from __future__ import annotations

from collections.abc import Iterable

from jprep.train.run.events import Event


class RunStatus:
    """Follows events.

    Attributes:
        step: updates that are done.
        saved: those that the newest checkpoint has.
        loss: of the last step that was logged; None before one was.
        validation: the last figures of the validation split, `loss` among them; none where nothing was measured.
        rate: updates a second since the last start, the time up to its first figures left out where there are more;
            None before there are any.
    """

    def __init__(self) -> None:
        self.step = self.saved = 0
        self.loss: float | None = None
        self.validation: dict[str, float | None] = {}
        self.rate: float | None = None
        self._since = (0.0, 0)
        self._warm = False

    def add(self, events: Iterable[Event]) -> None:
        """Take more events, in order."""
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
        """How long a run of so many steps still takes at this pace; None where nobody knows."""
        return (steps - self.step) / self.rate if self.rate else None

    def _measure(self, event: Event) -> None:
        time, step = self._since
        if event.time > time and event.step > step:
            self.rate = (event.step - step) / (event.time - time)
        if not self._warm:
            self._since, self._warm = (event.time, event.step), True
