"""Experiment trackers: TensorBoard files, written without TensorBoard, and Weights & Biases if it is installed."""

from __future__ import annotations

import contextlib
import importlib.util
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from jprep.io import protobuf
from jprep.io.atomic import write_atomic
from jprep.io.crc32c import crc32c, mask_checksums
from jprep.train.job.config import Job
from jprep.train.run.events import Event, EventReader

TENSORBOARD = "tensorboard/events.out.tfevents.0000000000.jprep"
"""A name that TensorBoard finds in a run directory, or in a folder of many."""

_NAMES = {"log": "train", "validation": "validation"}
_DOUBLE, _FLOAT = 1, 5  # protobuf's wire types
_START = 1  # SessionLog.START


class Tracker(Protocol):
    """Receives the events of a run."""

    def add(self, events: list[Event]) -> None:
        """Log further events, in order."""

    def close(self) -> None:
        """Finish logging."""


class Trackers:
    """The trackers of a job. One that fails is disabled with a message, and training continues.

    Args:
        run: the run directory.
        job: the job.
        say: called with a message for the user.
    """

    def __init__(self, run: Path, job: Job, say: Callable[[str], None]) -> None:
        self._follower, self._say = EventReader(run), say
        self._trackers: dict[str, Tracker] = {}
        if "tensorboard" in job.train.trackers:
            self._trackers["tensorboard"] = TensorBoard(run)
        if "wandb" in job.train.trackers:
            if importlib.util.find_spec("wandb"):
                with self._trying("wandb"):
                    self._trackers["wandb"] = Wandb(run, job)
            else:
                say("wandb is not installed: run `pip install wandb`, or remove it from train.trackers")

    def update(self) -> None:
        """Pass on new events."""
        try:
            events = self._follower.new()
        except OSError:  # a transient error: the next call reads the events again
            return
        for name, tracker in list(self._trackers.items() if events else ()):
            with self._trying(name):
                tracker.add(events)

    def close(self) -> None:
        """Pass on the remaining events, and finish."""
        self.update()
        for name, tracker in list(self._trackers.items()):
            with self._trying(name):
                tracker.close()

    @contextlib.contextmanager
    def _trying(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tracker's library raises
            self._trackers.pop(name, None)
            self._say(f"{name} failed and is disabled until the next start: {error}")


class TensorBoard:
    """Writes a file of scalars. It depends on the events only: each supervisor writes it again, with the same bytes."""

    def __init__(self, run: Path) -> None:
        self._path, self._begun = run / TENSORBOARD, False

    def add(self, events: list[Event]) -> None:
        """Append events; the first call starts a new file."""
        data = b"".join(map(_record, events))
        if self._begun:
            with self._path.open("ab") as file:
                file.write(data)
        else:
            write_atomic(
                self._path, tfrecord_frame(_double(1, events[0].time) + protobuf.data(3, b"brain.Event:2")) + data
            )
            self._begun = True

    def close(self) -> None:
        """Do nothing: the file is complete after each call of `add`."""


class Wandb:
    """Logs to Weights & Biases: one of its runs for each run directory, resumed with it."""

    def __init__(self, run: Path, job: Job) -> None:
        import msgspec
        import wandb  # type: ignore[import-not-found, unused-ignore]

        config = msgspec.to_builtins(job)
        name = f"{job.name}-{job.fingerprint[:8]}"
        self._run: Any = wandb.init(
            project="jprep", id=name, name=job.name, resume="allow", dir=str(run), config=config
        )

    def add(self, events: list[Event]) -> None:
        """Log metrics; steps that are already logged stay as they are."""
        for event in events:
            if figures := dict(_scalars(event)):
                self._run.log(figures, step=event.step)

    def close(self) -> None:
        """Finish its run."""
        self._run.finish()


def _scalars(event: Event) -> Iterator[tuple[str, float]]:
    if event.kind in _NAMES:
        for name, value in event.figures.items():
            yield f"{_NAMES[event.kind]}/{name}", float("nan") if value is None else value


def _record(event: Event) -> bytes:
    """Return TensorBoard's record of an event: its scalars, or at a start that later steps are discarded."""
    head = _double(1, event.time)
    if event.kind == "start":
        return tfrecord_frame(head + protobuf.number(2, event.step + 1) + protobuf.data(7, protobuf.number(1, _START)))
    scalars = (protobuf.data(1, name.encode()) + _float(2, value) for name, value in _scalars(event))
    values = b"".join(protobuf.data(1, scalar) for scalar in scalars)
    return tfrecord_frame(head + protobuf.number(2, event.step) + protobuf.data(5, values)) if values else b""


def tfrecord_frame(record: bytes) -> bytes:
    """Return a record in TFRecord format: its length, the length's checksum, the record, its checksum."""
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def _checksum(data: bytes) -> bytes:
    return mask_checksums(crc32c(data, [0, len(data)])).astype("<u4").tobytes()


def _double(field: int, value: float) -> bytes:
    return protobuf.encode_varint(field << 3 | _DOUBLE) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return protobuf.encode_varint(field << 3 | _FLOAT) + _packed(value)


def _packed(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # beyond the range of a 32-bit float
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))
