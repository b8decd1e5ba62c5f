"""A lease of a directory: a lock between hosts that share a file system on which `flock` does not reach that far.

While it is held, the directory `NAME.lease` beside the lock has one file, whose name belongs to the holder alone and
which the holder changes every few seconds. All steps depend on a name that is used once, so that a process that was
suspended in the middle of one cannot harm a later holder:

- **Take**: rename a directory that already has the file to `NAME.lease`. The server refuses that unless the target is
  missing or empty, so that at most one of many succeeds.
- **Release**, and **evict** a dead holder: delete the holder's file, then the empty directory. A second deletion finds
  nothing, and does not concern the next holder.
- **Renew** after a pause of more than `valid` seconds: rename the file to a new name. That fails if it was evicted, and
  an eviction that has begun fails afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from jprep.io.shared.heartbeats import TIMING, Beat, BeatFile, Beating, BeatWatch, Timing, list_beats, read_beat
from jprep.io.shared.host import Holder, steady_clock
from jprep.io.shared.network_files import is_silly_rename, retry_stale
from jprep.io.shared.ownership import OwnershipFile, lost_error

LEASE_SUFFIX = ".lease"

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ESTALE)


def lease_folder(lock: Path) -> Path:
    """Return the directory of the lease that belongs to a lock file."""
    return lock.with_name(f"{lock.name}{LEASE_SUFFIX}")


class Lease:
    """A lease of this process.

    Args:
        lock: the lock file that it belongs to.
        holder: this process.
        timing: the times of the protocol.
        clock: returns seconds.
    """

    def __init__(
        self, lock: Path, holder: Holder, timing: Timing = TIMING, clock: Callable[[], float] = steady_clock
    ) -> None:
        self.ownership_file = OwnershipFile(lease_folder(lock), holder.session)
        self._lock, self._timing, self._clock = lock, timing, clock
        self._file = BeatFile(self.ownership_file.folder / f"{holder.session}-0", holder)
        self._holder, self._renewals, self._last = holder, 0, 0.0
        self._owner, self._mutex = os.getpid(), threading.Lock()
        self._beating: Beating | None = None

    def take(self) -> bool:
        """Take the lease, and return whether this succeeded: only if nobody holds it.

        Raises:
            OSError: the directory cannot be written.
        """
        folder, started = self.ownership_file.folder, self._clock()
        own = folder.with_name(f"{folder.name}-{self._holder.session}")
        own.mkdir()
        try:
            BeatFile(own / self._file.path.name, self._holder).create()
            _remove_if_empty(folder)
            _rename_unless_taken(own, folder)
            taken = self._file.exists()  # also after an error: the reply to a first request may have been lost
        except BaseException:
            _remove_private(own)
            raise
        if taken:
            self._last = started
        else:
            _remove_private(own)
        return taken

    def keep(self) -> None:
        """Change the file in a thread, every few seconds, until `release` or `abandon`."""
        self._beating = Beating(self._beat_quietly, self._timing.beat)

    def beat(self) -> None:
        """Show that this process is alive.

        Raises:
            MachineError: the lease was taken away.
            OSError: the file cannot be written.
        """
        with self._mutex:
            started = self._clock()
            if started - self._last >= self._timing.valid:
                self._renew()
                return
            try:
                self._file.change()
            except FileNotFoundError:
                raise lost_error(self._lock.parent) from None
            self._last = started

    def check(self) -> None:
        """Check that this process, or the one that it was forked from, holds the lease.

        Raises:
            MachineError: it was taken away, or that is unknown because the file system does not answer.
        """
        if os.getpid() != self._owner:
            self.ownership_file.check()
            return
        with self._mutex:
            try:
                while self._exists() and self._clock() - self._last >= self._timing.valid:
                    self._renew()
            except OSError as error:
                raise lost_error(self._lock.parent) from error

    def _exists(self) -> bool:
        """Return True if the lease has not been taken away; the clock is read after that."""
        if not self._file.exists():
            raise lost_error(self._lock.parent)
        return True

    def release(self) -> None:
        """Give the lease back, if it was not taken away."""
        self.abandon()
        self.give_up()

    def give_up(self) -> None:
        """Give the lease back without waiting for a change of the file that has begun."""
        with contextlib.suppress(OSError):
            if os.getpid() == self._owner:
                evict(self.ownership_file.folder, self._file.path.name)

    def abandon(self) -> None:
        """Stop changing the file: other hosts take the lease over after `stale` seconds, this one at once."""
        if self._beating:
            self._beating.stop()
            self._beating = None

    def _renew(self) -> None:
        """Rename the file: nobody has taken the lease, and who was about to do so fails."""
        started = self._clock()
        path = self._file.path.with_name(f"{self._holder.session}-{self._renewals + 1}")
        with contextlib.suppress(FileNotFoundError):
            self._file.path.rename(path)
        renewed = BeatFile(path, self._holder)
        if not renewed.exists():  # also after an error: the reply to a first request may have been lost
            raise lost_error(self._lock.parent)
        self._file, self._renewals, self._last = renewed, self._renewals + 1, started

    def _beat_quietly(self) -> bool:
        """Beat; a lost lease ends it, and the next check reports that. Other errors may pass."""
        try:
            with contextlib.suppress(OSError):
                self.beat()
        except Exception:
            return False
        return True


class LeaseWatch:
    """Watches a lease from outside.

    Args:
        lock: the lock file that it belongs to.
        timing: the times of the protocol.
        clock: returns seconds.
    """

    def __init__(self, lock: Path, timing: Timing = TIMING, clock: Callable[[], float] = steady_clock) -> None:
        self.folder, self._watch = lease_folder(lock), BeatWatch(clock, timing)
        self._clock, self._read_at = clock, clock()

    def look(self) -> Beat | None:
        """Return who holds the lease; None if nobody does.

        Raises:
            OSError: the directory cannot be read.
        """
        self._read_at = self._clock()
        for name in list_beats(self.folder):
            if found := read_beat(self.folder / name):
                return found
        return None

    def is_alive(self, beat: Beat) -> bool | None:
        """Return whether a holder, as `look` returned it, is alive; None if it was not watched for long enough."""
        return self._watch.look(beat, self._read_at)


def evict(folder: Path, name: str) -> None:
    """Take a lease away from a holder; one of another name keeps it.

    Args:
        folder: the directory of the lease.
        name: the name of the holder's file.

    Raises:
        OSError: the directory cannot be written.
    """
    retry_stale(lambda: (folder / name).unlink(missing_ok=True))
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    """Delete a directory without a holder, and what NFS leaves of files that are still open somewhere."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if is_silly_rename(path.name):
                path.unlink()
        folder.rmdir()


def _rename_unless_taken(own: Path, folder: Path) -> None:
    try:
        own.rename(folder)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise


def _remove_private(own: Path) -> None:
    with contextlib.suppress(OSError):
        for path in own.iterdir():
            path.unlink()
        own.rmdir()
