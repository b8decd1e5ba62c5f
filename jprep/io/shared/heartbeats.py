"""Files that show that their writers are alive: each writer changes a number in its own file every few seconds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.io.shared.host import Holder
from jprep.io.shared.network_files import is_silly_rename, retry_stale
from jprep.typed_json import decode_json


class Timing(NamedTuple):
    """Seconds of the protocol between hosts, each by the clock of the host that measures them.

    Attributes:
        beat: between two changes of the file.
        valid: after its last change a holder does nothing before it has renewed its lease.
        stale: a holder whose file does not change for so long is taken for dead. What it has over `valid` is the
            margin for clocks of different speed and for changes that a network file system shows late.
    """

    beat: float = 5.0
    valid: float = 40.0
    stale: float = 120.0


TIMING = Timing()

_COUNTER = "{:020d}\n"


class Beat(NamedTuple):
    """What a file shows.

    Attributes:
        name: its name.
        holder: who writes it; None if it was being written or deleted.
        counter: the number that its writer changes.
    """

    name: str
    holder: Holder | None
    counter: bytes


class BeatFile:
    """The writer of such a file.

    Args:
        path: the file; `create` creates it, and others may delete or rename it.
        holder: this process.
    """

    def __init__(self, path: Path, holder: Holder) -> None:
        self.path, self._head, self._count = path, msgspec.json.encode(holder) + b"\n", 0

    def create(self) -> None:
        """Write the file.

        Raises:
            OSError: it cannot be written.
        """
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._write(handle, self._head + _COUNTER.format(0).encode(), 0)

    def change(self) -> None:
        """Change the number; a deleted file is not created again.

        Raises:
            OSError: it was deleted, or cannot be written.
        """
        self._count += 1
        handle = retry_stale(lambda: os.open(self.path, os.O_WRONLY))
        self._write(handle, _COUNTER.format(self._count).encode(), len(self._head))

    def exists(self) -> bool:
        """Return whether the file exists; opening it asks the server of a network file system.

        Raises:
            OSError: it is not known.
        """
        try:
            os.close(retry_stale(lambda: os.open(self.path, os.O_RDONLY)))
        except FileNotFoundError:
            return False
        return True

    def _write(self, handle: int, data: bytes, offset: int) -> None:
        try:
            os.pwrite(handle, data, offset)
            os.fsync(handle)
        finally:
            os.close(handle)


def read_beat(path: Path) -> Beat | None:
    """Return what a file shows; None if it does not exist.

    Raises:
        OSError: it cannot be read.
    """
    try:
        data = retry_stale(path.read_bytes)
    except FileNotFoundError:
        return None
    head, _, counter = data.partition(b"\n")
    try:
        return Beat(path.name, decode_json(head, Holder), counter)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Beat(path.name, None, data)


def list_beats(folder: Path) -> list[str]:
    """Return the names of such files in a directory; none if it does not exist.

    Raises:
        OSError: it cannot be read.
    """
    try:
        names = [path.name for path in retry_stale(lambda: [*folder.iterdir()])]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not is_silly_rename(name))


class Beating:
    """A thread that calls a function every few seconds until it is stopped.

    Args:
        beat: the function; it returns whether to continue, and raises nothing.
        seconds: between two calls.
    """

    def __init__(self, beat: Callable[[], bool], seconds: float) -> None:
        self._beat, self._seconds, self._stopped = beat, seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, name="jprep-beat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop calling, and wait for a call that has begun."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds) and self._beat():
            pass


class BeatWatch:
    """Judges by watching whether the writer of a file is alive. Clocks and time stamps of hosts are not compared.

    Args:
        clock: returns seconds.
        timing: the times of the protocol.
    """

    def __init__(self, clock: Callable[[], float], timing: Timing) -> None:
        self._clock, self._timing = clock, timing
        self._last: tuple[str, bytes] | None = None
        self._since, self._changes = 0.0, 0

    def look(self, beat: Beat, read_at: float) -> bool | None:
        """Return whether the writer of a file is alive, by its change since earlier calls; None if it is not known.

        Args:
            beat: what the file shows.
            read_at: the clock before it was read: this process may have been suspended since.
        """
        shown = (beat.name, beat.counter)
        if shown != self._last:
            self._changes += self._last is not None
            self._last, self._since = shown, self._clock()
        if beat.holder and beat.holder.is_here and beat.holder.flock == "none":
            return not beat.holder.has_ended()
        if read_at - self._since >= self._timing.stale:
            return False
        return True if self._changes else None
