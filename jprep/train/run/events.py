"""`events.jsonl`: the log of a run, one JSON object per line, read by reports, trackers and the supervisor."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import xxhash

from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.shared.ownership import check_ownership

EVENTS = "events.jsonl"

EventKind = Literal[
    "start", "log", "validation", "checkpoint", "profile", "restart", "signal", "damaged", "rewind", "end"
]

MEMORY, DEVICE_MEMORY = "memory", "device_memory"
"""Training metrics: the most bytes of main memory, and of an accelerator's memory, that rank 0 has held."""

_BLOCK = 1 << 20


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event.

    Attributes:
        time: seconds since 1970.
        step: the number of updates done.
        kind: `start`, a worker starts after that step; `log`, training metrics; `validation`, validation metrics;
            `checkpoint`, one was committed; `profile`, steps were profiled, with the seconds of each phase; `restart`,
            the worker died or hung and is restarted; `signal`, it was stopped by a signal; `damaged`, a checkpoint was
            set aside; `rewind`, the user had all later checkpoints set aside; `end`, the run is over, with the metric
            `code`: 0, or the exit code of the error in `note`.
        figures: metrics by name; null if not finite.
        note: a message.
    """

    time: float
    step: int
    kind: EventKind
    figures: dict[str, float | None] = {}
    note: str = ""


_decoder = msgspec.json.Decoder(Event)

_CHECK = b',"check":"%s"}'
"""The end of each line: XXH3 (64 bits) of the rest of the line. Earlier versions wrote none."""

_CHECKED = re.compile(rb'(.*),"check":"([0-9a-f]{16})"}')


def record_event(
    run: Path, kind: EventKind, step: int, figures: Mapping[str, float | None] = {}, note: str = ""
) -> None:
    """Append an event, by a single write of a whole line: several processes may append at once.

    Args:
        run: the run directory.
        kind: see `Event`.
        step: the number of updates done.
        figures: metrics by name.
        note: a message.

    Raises:
        MachineError: the disk is full or not writable, or another host has taken over the run.
    """
    event = msgspec.json.encode(Event(time.time(), step, kind, dict(figures), note))
    path, line = run / EVENTS, event[:-1] + _CHECK % _digest(event) + b"\n"
    check_ownership()
    try:
        failpoint("run.event")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _write(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        raise write_error(error, path) from error


def _write(handle: int, line: bytes) -> None:
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":  # an earlier write was truncated: start a new line
        line = b"\n" + line
    if os.write(handle, line) < len(line):  # the disk is full: the next write raises the error
        os.write(handle, b"\n")


class EventReader:
    """Reads a run's events incrementally.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._path, self._offset, self._rest = run / EVENTS, 0, b""

    def new(self) -> list[Event]:
        """Return the events appended since the last call.

        An incomplete last line is left for the next call; damaged lines are skipped. A file that has become shorter is
        that of another run, and is read from its beginning.

        Raises:
            OSError: the file cannot be read; the next call starts at the same place.
        """
        found: list[Event] = []
        offset, rest = self._offset, self._rest
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < offset:  # the run was deleted, and another one began
                offset, rest = 0, b""
            file.seek(offset)
            while block := file.read(_BLOCK):
                offset += len(block)
                *lines, rest = (rest + block).split(b"\n")
                found.extend(event for line in lines if (event := _event(line)))
        self._offset, self._rest = offset, rest
        return found


def iter_events(run: Path) -> Iterator[Event]:
    """Yield all events of a run, in order and with bounded memory; damaged lines are skipped.

    Raises:
        OSError: the file cannot be read.
    """
    rest = b""
    with contextlib.suppress(FileNotFoundError), (run / EVENTS).open("rb") as file:
        while block := file.read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            yield from (event for line in lines if (event := _event(line)))


def _event(line: bytes) -> Event | None:
    """Return the event of a line; None if the line is truncated (a kill, a full disk) or damaged."""
    if found := _CHECKED.fullmatch(line):
        line = found[1] + b"}"
        if _digest(line) != found[2]:
            return None
    try:
        return _decoder.decode(line) if line else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _digest(event: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(event).encode()


def read_events(run: Path) -> list[Event]:
    """Return all events of a run, in order; none if it has not started."""
    return EventReader(run).new()


def first_failure(events: Iterable[Event]) -> Event | None:
    """Return the first `end` event with an error; later ones of the same attempt are its consequences."""
    return next((event for event in events if event.kind == "end" and event.figures.get("code")), None)


def last_end(events: Iterable[Event], before: Event | None = None) -> Event | None:
    """Return the last `end` event that no `start` follows.

    Args:
        events: events in order.
        before: the result for earlier events.
    """
    for event in events:
        if event.kind in ("start", "end"):
            before = event if event.kind == "end" else None
    return before


def saved_steps(events: Iterable[Event]) -> set[int]:
    """Return the steps of all committed checkpoints, except those discarded by a later start at an earlier step."""
    found: set[int] = set()
    for event in events:
        if event.kind in ("start", "rewind"):
            found = {step for step in found if step <= event.step}
        elif event.kind in ("checkpoint", "damaged"):
            found.add(event.step)
    return found


def metric_curve(
    events: Iterable[Event], kind: EventKind = "log", figure: str = "loss"
) -> tuple[list[int], list[float]]:
    """Return the values of a metric over the steps.

    A `start` at step S discards the values of later steps. If a step was logged twice, the last value counts.

    Args:
        events: events in order.
        kind: `log` or `validation`.
        figure: the metric's name.

    Returns:
        The steps in ascending order, and the value at each.
    """
    rows = metric_rows(events, kind)
    found = {step: value for step, figures in rows.items() if (value := figures.get(figure)) is not None}
    return list(found), list(found.values())


def metric_rows(events: Iterable[Event], kind: EventKind = "log") -> dict[int, dict[str, float]]:
    """Return the finite metrics at each step, in ascending order of steps; see `metric_curve`."""
    found: dict[int, dict[str, float]] = {}
    for event in events:
        if event.kind == "start":
            found = {step: figures for step, figures in found.items() if step <= event.step}
        elif event.kind == kind:
            finite = {name: value for name, value in event.figures.items() if value is not None}
            found[event.step] = found.get(event.step, {}) | finite
    return {step: found[step] for step in sorted(found)}
