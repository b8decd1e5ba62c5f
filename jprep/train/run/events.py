"""`events.jsonl`: what happened in a run, one JSON object a line, for reports, trackers and the supervisor."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import xxhash

from jprep.io.atomic import write_error
from jprep.io.failpoints import failpoint

EVENTS = "events.jsonl"

EventKind = Literal["start", "log", "validation", "checkpoint", "restart", "signal", "damaged", "rewind", "end"]

_BLOCK = 1 << 20


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened.

    Attributes:
        time: seconds since 1970.
        step: how many updates were done.
        kind: `start`, a worker begins after so many steps; `log`, figures of training; `validation`, figures of
            validation; `checkpoint`, it is committed; `restart`, the worker died or was silent and is started again;
            `signal`, it was asked to leave and left; `damaged`, a checkpoint was set aside; `rewind`, the user had all
            later checkpoints set aside; `end`, the run is over, with `code` 0 or that of the error in `note`.
        figures: by name; null where one is not finite.
        note: in words.
    """

    time: float
    step: int
    kind: EventKind
    figures: dict[str, float | None] = {}
    note: str = ""


_decoder = msgspec.json.Decoder(Event)

_CHECK = b',"check":"%s"}'
"""The end of each line: the XXH3 (64 bits) of the line without it. Lines of earlier versions have none."""

_CHECKED = re.compile(rb'(.*),"check":"([0-9a-f]{16})"}')


def record_event(
    run: Path, kind: EventKind, step: int, figures: Mapping[str, float | None] = {}, note: str = ""
) -> None:
    """Append an event: one write of a whole line, so that several processes may do it at once.

    Raises:
        MachineError: the disk is full or not writable.
    """
    event = msgspec.json.encode(Event(time.time(), step, kind, dict(figures), note))
    path, line = run / EVENTS, event[:-1] + _CHECK % _digest(event) + b"\n"
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
    if size and os.pread(handle, 1, size - 1) != b"\n":  # a write was cut short: its line stays alone
        line = b"\n" + line
    if os.write(handle, line) < len(line):  # the disk has become full: writing the rest says so
        os.write(handle, b"\n")


class EventReader:
    """Reads a run's events as they come.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._path, self._offset, self._rest = run / EVENTS, 0, b""

    def new(self) -> list[Event]:
        """Return the events since the last call.

        A line that is not complete yet is left for the next call; those that are damaged are skipped.

        Raises:
            OSError: the file cannot be read; the next call begins where this one did.
        """
        found: list[Event] = []
        offset, rest = self._offset, self._rest
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(offset)
            while block := file.read(_BLOCK):
                offset += len(block)
                *lines, rest = (rest + block).split(b"\n")
                found.extend(event for line in lines if (event := _event(line)))
        self._offset, self._rest = offset, rest
        return found


def _event(line: bytes) -> Event | None:
    """The event of a line; None for one that was cut short (a kill, a full disk) or changed."""
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
    """All of a run's events, in order; none where it has not begun."""
    return EventReader(run).new()


def last_end(events: Iterable[Event], before: Event | None = None) -> Event | None:
    """The `end` that no `start` came after.

    Args:
        events: in order.
        before: that of earlier events.
    """
    for event in events:
        if event.kind in ("start", "end"):
            before = event if event.kind == "end" else None
    return before


def saved_steps(events: Iterable[Event]) -> set[int]:
    """Return the steps of all checkpoints that were committed and not given up since by a start at an earlier step."""
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
    """Steps in order, and a figure at each.

    What came after step S is forgotten where a `start` goes on from S; of a step told twice the last one counts.
    """
    found: dict[int, float] = {}
    for event in events:
        if event.kind == "start":
            found = {step: value for step, value in found.items() if step <= event.step}
        elif event.kind == kind and (value := event.figures.get(figure)) is not None:
            found[event.step] = value
    return sorted(found), [found[step] for step in sorted(found)]
