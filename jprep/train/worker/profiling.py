"""Profile some steps: a trace by the framework's profiler, and the time that each phase of a step takes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from jprep.errors import JprepError
from jprep.io.atomic import remove_tree
from jprep.io.os_errors import write_error
from jprep.train.run.events import record_event
from jprep.train.run.log import on_stderr
from jprep.train.run.profile import (
    PHASES,
    PROFILE,
    ProfileSteps,
    ProfileSummary,
    format_table,
    parse_profile,
    write_summary,
)

Phase = Literal["input", "forward", "backward", "optimizer", "device", "waiting"]

Item = TypeVar("Item")


class Tracer(Protocol):
    """A framework's profiler. One that fails is reported, and training continues."""

    def start(self, folder: Path) -> None:
        """Start recording; the files of the trace are to be written into this folder."""

    def stop(self) -> None:
        """Stop recording, and write the trace in a form that TensorBoard or Perfetto opens."""

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name in the trace."""

    def wait(self) -> None:
        """Wait until the device has computed what it was given."""

    def device_shares(self) -> Mapping[str, float]:
        """Return, after `stop`, how the phases share the time that the device computed; empty if it is not known.

        For frameworks that run the whole step as one program, whose time is the phase `device`.
        """


class NoTracer:
    """Records no trace; only the times of the phases are measured."""

    def start(self, folder: Path) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return contextlib.nullcontext()

    def wait(self) -> None:
        """Do nothing: the host computes."""

    def device_shares(self) -> Mapping[str, float]:
        """Return nothing."""
        return {}


class Profiler:
    """Profiles the steps that `jprep train --profile` names; in all other steps its methods do nothing.

    `Session` counts the steps and measures the phase `input`; a backend marks the other phases, and sets `tracer`:

        session.profiler.tracer = TorchTracer(device)
        with session.profiler.phase("forward"):
            loss = model(batch)

    Phases may be nested: the time of the inner one does not count for the outer one. During the profiled steps the
    host waits for the device at the end of each phase, so that times are those of the computation, not of its start.

    Args:
        run: the run directory.
        rank: this process's rank.
        world: the number of ranks.
        steps: the steps to profile; None for no profile.

    Attributes:
        tracer: the framework's profiler.
        notes: what readers of the table should know, from the backend.
    """

    def __init__(self, run: Path, rank: int = 0, world: int = 1, steps: ProfileSteps | None = None) -> None:
        self._run, self._rank, self._world, self._steps = run, rank, world, steps
        self.tracer: Tracer = NoTracer()
        self.notes: list[str] = []
        self._active = False
        self._first = self._last = 0
        self._stack: list[str] = []
        self._seconds: dict[str, float] = {}
        self._start = self._since = 0.0

    @property
    def active(self) -> bool:
        """Whether the current step is being profiled."""
        return self._active

    def input(self, step: int, read: Callable[[], Item]) -> Item:
        """Begin a step by reading its batch, and return the batch. `Session` calls it.

        Args:
            step: the number of the step.
            read: returns the batch.
        """
        if self._steps is None:
            return read()
        if self._active and step > self._steps.last:
            self._stop()
        if not self._active and self._steps.first <= step <= self._steps.last:
            self._begin(step)
        self._last = step
        with self.phase("input"):
            return read()

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Return a context whose time counts for a phase of the step."""
        return self._phase(name) if self._active else contextlib.nullcontext()

    def close(self) -> None:
        """Finish the profile, if the run ends or stops during it."""
        if self._active:
            self._stop()

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._switch(name)
        try:
            with self.tracer.annotate(name):
                yield
                self.tracer.wait()
        finally:
            self._switch(None)

    def _switch(self, name: str | None) -> None:
        """Count the time since the last call for the current phase; then enter a phase, or leave the current one."""
        now = time.perf_counter()
        current = self._stack[-1] if self._stack else "other"
        self._seconds[current] = self._seconds.get(current, 0.0) + now - self._since
        self._since = now
        if name is None:
            if self._stack:
                self._stack.pop()
        else:
            self._stack.append(name)

    def _begin(self, step: int) -> None:
        folder = self._folder()
        with self._reporting("starting the trace"):
            self.tracer.wait()
            _make_empty(folder)
            self.tracer.start(folder)
        self._active, self._first = True, step
        self._stack, self._seconds = [], {}
        self._start = self._since = time.perf_counter()

    def _stop(self) -> None:
        with self._reporting("waiting for the device"):
            self.tracer.wait()
        self._stack.clear()
        self._switch(None)
        seconds, self._active = self._since - self._start, False
        with self._reporting("writing the trace"):
            self.tracer.stop()
        with self._reporting("writing the table"):
            self._write(self._summary(seconds))

    def _summary(self, seconds: float) -> ProfileSummary:
        folder, found = self._folder(), self._split_device()
        return ProfileSummary(
            first=self._first,
            last=self._last,
            rank=self._rank,
            processes=self._world,
            seconds=seconds,
            phases={name: found[name] for name in PHASES if name in found},
            trace=sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()),
            notes=self.notes,
        )

    def _split_device(self) -> dict[str, float]:
        """Return the seconds of the phases, those of the device divided among the phases that it computed."""
        found, shares = dict(self._seconds), dict[str, float]()
        with self._reporting("reading the trace"):
            shares.update(self.tracer.device_shares())
        if shares:
            device = found.pop("device", 0.0)
            for name, share in shares.items():
                found[name] = found.get(name, 0.0) + share * device
        return found

    def _write(self, summary: ProfileSummary) -> None:
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_summary(folder, summary)
        if not self._rank:
            table = f"{format_table(summary)}\n  trace: {folder}"
            on_stderr(table)
            figures = {"seconds": summary.seconds, **summary.phases}
            record_event(self._run, "profile", self._last, figures, table)

    def _folder(self) -> Path:
        assert self._steps is not None
        return self._run / self._steps.folder / f"rank-{self._rank}"

    @contextlib.contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Report an error of the profiler: no training ends because of its profile."""
        try:
            yield
        except JprepError as error:
            self._report(f"{what}: {error.what}")
        except Exception as error:  # whatever a framework's profiler raises
            self._report(f"{what}: {type(error).__name__}: {error}")

    def _report(self, problem: str) -> None:
        note = f"the profile is incomplete: {problem}"
        self.notes.append(note)
        on_stderr(f"jprep: {note}")


def open_profiler(run: Path, rank: int, world: int) -> Profiler:
    """Return the profiler of a process, for the steps in the variable `PROFILE`.

    Args:
        run: the run directory.
        rank: this process's rank.
        world: the number of ranks.
    """
    text = os.environ.get(PROFILE, "")
    return Profiler(run, rank, world, parse_profile(text) if text else None)


def _make_empty(folder: Path) -> None:
    try:
        remove_tree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise write_error(error, folder) from error
