"""Register live workers in a directory that another process may lock, finish or restart meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from jprep.io.os_errors import write_error
from jprep.io.shared.heartbeats import TIMING, BeatFile, Beating, BeatWatch, Timing, list_beats, read_beat
from jprep.io.shared.host import Holder, describe_process, steady_clock
from jprep.io.shared.ownership import OwnershipFile, checked, ended_error

WORKERS = "workers"
"""The folder of the registrations, in the state of an output directory."""


_ATTEMPTS = 10


class Worker:
    """A registration of this process.

    Args:
        folder: the folder of the registrations.
        timing: the times of the protocol.

    Raises:
        MachineError: it cannot be written.
    """

    def __init__(self, folder: Path, timing: Timing = TIMING) -> None:
        holder = describe_process("none")  # workers of one host are judged by their process ids
        self.ownership_file = OwnershipFile(folder, holder.session, worker=True)
        self._file = BeatFile(folder / holder.session, holder)
        try:
            self._create(folder)
        except OSError as error:
            raise write_error(error, folder) from error
        self._beating = Beating(self._beat, timing.beat)

    def check(self) -> None:
        """Check that the registration exists.

        Raises:
            MachineError: the directory was finished, restarted or deleted.
        """
        with contextlib.suppress(OSError):  # a transient error; the write that follows will tell
            if not self._file.exists():
                raise ended_error(self.ownership_file.folder.parent.parent)

    def close(self) -> None:
        """End the registration."""
        self._beating.stop()
        self.give_up()

    def give_up(self) -> None:
        """Delete the registration."""
        with contextlib.suppress(OSError):
            self._file.path.unlink(missing_ok=True)
            self.ownership_file.folder.rmdir()  # fails while there are others

    def _create(self, folder: Path) -> None:
        for _ in range(_ATTEMPTS):
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # the last other worker has deleted the folder in between
                self._file.create()
                return
        self._file.create()

    def _beat(self) -> bool:
        try:
            self._file.change()
        except FileNotFoundError:
            return False
        except OSError:  # it may pass
            return True
        return True


@contextlib.contextmanager
def registered_worker(folder: Path) -> Iterator[Worker]:
    """Register this process for the duration of the block. What it commits then is checked against the registration.

    Args:
        folder: the folder of the registrations.

    Raises:
        MachineError: it cannot be written.
    """
    worker = Worker(folder)
    try:
        with checked(worker):
            yield worker
    finally:
        worker.close()


class WorkerWatch:
    """Watches the registrations in a folder.

    Args:
        folder: the folder.
        timing: the times of the protocol.
        clock: returns seconds.
    """

    def __init__(self, folder: Path, timing: Timing = TIMING, clock: Callable[[], float] = steady_clock) -> None:
        self._folder, self._timing, self._clock = folder, timing, clock
        self._watches: dict[str, BeatWatch] = {}

    def alive(self) -> list[Holder]:
        """Return the registered workers that are not known to be dead; registrations of dead ones are deleted.

        Workers of this host are judged at once, those of others by their changes since the first call.

        Raises:
            OSError: the folder cannot be read.
        """
        return [holder for name in list_beats(self._folder) if (holder := self._look(name))]

    def end_all(self) -> None:
        """Delete all registrations: live workers stop before they commit anything more."""
        with contextlib.suppress(OSError):
            for name in list_beats(self._folder):
                with contextlib.suppress(OSError):
                    (self._folder / name).unlink(missing_ok=True)
            if self._folder.is_dir():
                self._folder.rmdir()

    def _look(self, name: str) -> Holder | None:
        path, read_at = self._folder / name, self._clock()
        if not (beat := read_beat(path)):
            return None
        watch = self._watches.setdefault(name, BeatWatch(self._clock, self._timing))
        if watch.look(beat, read_at) is False:
            path.unlink(missing_ok=True)
            return None
        return beat.holder or _UNKNOWN


_UNKNOWN = Holder(session="", host="", name="an unknown host", process=0)
"""The writer of a registration that is just being written."""
