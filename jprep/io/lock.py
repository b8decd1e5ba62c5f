"""Lock a directory for one process at a time, on one host by `flock`, between hosts by a lease where that is needed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jprep.errors import MachineError
from jprep.io.os_errors import write_error
from jprep.io.shared.file_systems import Flock, describe_flock, file_system_of
from jprep.io.shared.heartbeats import TIMING, Beat
from jprep.io.shared.host import describe_process
from jprep.io.shared.lease import Lease, LeaseWatch, evict, lease_folder
from jprep.io.shared.lock_owners import describe_owner
from jprep.io.shared.ownership import checked

_PAUSE = 0.05  # seconds between two attempts
_NO_FLOCK = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of `flock` on file systems that do not have it."""

_log = logging.getLogger(__name__)


class _Locked(NamedTuple):
    """A lock file that this process has locked.

    Attributes:
        handle: its open handle.
        flock: where `flock` works there.
    """

    handle: int
    flock: Flock


class LockedError(MachineError):
    """Another process holds a lock."""


@contextlib.contextmanager
def hold_lock(
    path: Path, *, timeout: float = 5.0, where: Path | None = None, keep: bool = True, inheritable: bool = True
) -> Iterator[None]:
    """Hold an exclusive lock on a file for the duration of the block; the kernel releases it when this process ends.

    Worker processes that are started in the block share the lock: after an error it is held until the last of them
    ends. The holder may delete the file: a process that waits for it then locks the new file in its place.

    On a file system that other hosts may share, a lease beside the file excludes them, too (`jprep.io.shared.lease`).
    If the holder is suspended for long, another host may take the lease; then the holder's next commit raises an error.

    Args:
        path: the lock file; it is created.
        timeout: seconds to wait for another holder: workers of a killed run need a moment to exit. If the holder is on
            another host, it takes longer to find out whether it is alive: up to `TIMING.stale` seconds.
        where: the output that is locked, for messages; by default the lock file's directory.
        keep: whether to keep the file after the block.
        inheritable: whether programs that this process starts share the lock.

    Raises:
        LockedError: another process holds it.
        MachineError: it cannot be created; in the block, another host has taken it over.
    """
    where = where or path.parent
    deadline = time.monotonic() + timeout
    locked = _lock(path, where, deadline)
    os.set_inheritable(locked.handle, inheritable)
    finished = False
    try:
        with contextlib.ExitStack() as stack:
            if locked.flock != "local":
                stack.enter_context(_leased(path, where, locked, deadline))
            if not keep:
                stack.callback(_unlink, path)
            yield
            finished = True
    finally:
        if finished and locked.flock != "none":  # workers that wait for more tasks have inherited the handle
            fcntl.flock(locked.handle, fcntl.LOCK_UN)
        os.close(locked.handle)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file. Nothing is created or changed.

    A process that begins to lock the file meanwhile tries again. A holder on another host is watched for two beats.
    """
    if not os.access(path, os.R_OK):  # it does not exist, or another user's process made it
        return False
    watch = LockWatch(path)
    until = time.monotonic() + 2 * TIMING.beat
    while (alive := watch.is_held()) is None and time.monotonic() < until:
        time.sleep(_PAUSE)
    return bool(alive)


class LockWatch:
    """Watches from outside whether a lock is held. Nothing is created or changed.

    Args:
        path: the lock file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lease = path, LeaseWatch(path, TIMING)
        self._flock: Flock = file_system_of(path.parent).flock
        self._looked = float("-inf")
        self._found: bool | None = None

    def is_held(self) -> bool | None:
        """Return whether a process holds the lock.

        Returns:
            None if the file cannot be read, or its holder's host has not been watched for long enough.
        """
        try:
            flocked = _is_flocked(self._path)
        except OSError:
            return None
        if flocked or self._flock == "local":
            return bool(flocked)
        if time.monotonic() > self._looked + TIMING.beat / 5:
            self._looked = time.monotonic()
            self._found = self._judge("none" if flocked is None else self._flock)
        return self._found

    def _judge(self, flock: Flock) -> bool | None:
        try:
            beat = self._lease.look()
        except OSError:
            return None
        if beat is None or _freed_by_flock(beat, flock):
            return False
        return self._lease.is_alive(beat)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def describe_locks(folder: Path) -> str:
    """Return how an existing directory is locked, e.g. `flock across hosts`; a temporary file is locked to find out."""
    flock = file_system_of(folder).flock
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
        flock = flock_file(file.fileno(), folder / "LOCK")
    return describe_flock(flock)


def _is_flocked(path: Path) -> bool | None:
    """Return whether a process holds an exclusive `flock` on a file; None where the file system has none.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(handle)
    return False


def _lock(path: Path, where: Path, deadline: float) -> _Locked:
    """Return the locked file at the path."""
    while True:
        try:
            if locked := _attempt(path):
                return locked
        except OSError as error:
            raise write_error(error, where) from error
        if time.monotonic() > deadline:
            raise _held_error(where, describe_owner(path))
        time.sleep(_PAUSE)


def _attempt(path: Path) -> _Locked | None:
    """Return the locked file, or None where another process holds it or has just deleted it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:  # the directory was deleted in between
        return None
    try:
        flock = flock_file(handle, path)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return _Locked(handle, flock)
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno != errno.ESTALE:  # another host has deleted the file
            os.close(handle)
            raise
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def flock_file(handle: int, path: Path) -> Flock:
    """Lock an open file without waiting, and return where that excludes others: nowhere if there is no `flock`.

    Args:
        handle: its handle.
        path: its path.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it cannot be locked.
    """
    flock = file_system_of(path.parent).flock
    if flock == "none":
        return flock
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_FLOCK and flock != "local":
            return "none"
        raise
    return flock


@contextlib.contextmanager
def hold_lease(path: Path) -> Iterator[None]:
    """Hold only the lease that belongs to a file, if other hosts may share it, for the duration of the block.

    Requires that this process is the only one that may hold it: that of an earlier holder is taken away.

    Args:
        path: the file.

    Raises:
        MachineError: the directory cannot be written.
    """
    locked = _Locked(-1, file_system_of(path.parent).flock)
    if locked.flock == "local":
        yield
        return
    with contextlib.suppress(OSError):
        if beat := LeaseWatch(path).look():
            evict(lease_folder(path), beat.name)
    lease = _taken_lease(path, path.parent, locked, time.monotonic())
    try:
        yield
    finally:
        lease.release()


def release_ended(path: Path) -> None:
    """Take the lease of a file from a process of this host that has ended, so that no other host waits for it."""
    with contextlib.suppress(OSError):
        beat = LeaseWatch(path).look()
        if beat and beat.holder and beat.holder.has_ended():
            evict(lease_folder(path), beat.name)


def _taken_lease(path: Path, where: Path, locked: _Locked, deadline: float) -> Lease:
    lease = Lease(path, describe_process(locked.flock), TIMING)
    try:
        _take(lease, path, where, locked, deadline)
    except OSError as error:
        raise write_error(error, where) from error
    lease.keep()
    return lease


@contextlib.contextmanager
def _leased(path: Path, where: Path, locked: _Locked, deadline: float) -> Iterator[None]:
    """Hold the lease that belongs to a lock file. After an error it stays while worker processes hold the file."""
    lease = _taken_lease(path, where, locked, deadline)
    _log.info("%s is locked by: %s", where, describe_flock(locked.flock))
    finished = False
    try:
        with checked(lease):
            yield
        finished = True
    finally:
        if finished or locked.flock == "none" or not _has_heirs(path, locked.handle):
            lease.release()
        else:
            lease.abandon()


def _has_heirs(path: Path, handle: int) -> bool:
    """Return whether processes have inherited a locked file, which stays locked then. It is unlocked here otherwise."""
    os.set_inheritable(handle, False)
    try:
        other = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.dup2(other, handle, inheritable=False)  # this process's part in the lock ends
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(other)
    return False


def _take(lease: Lease, path: Path, where: Path, locked: _Locked, deadline: float) -> None:
    """Take the lease once it is free, or its holder is dead.

    Raises:
        MachineError: its holder is alive.
        OSError: the directory cannot be written.
    """
    watch, told = LeaseWatch(path, TIMING), time.monotonic() + 2 * TIMING.beat
    while not ((beat := watch.look()) is None and lease.take()):
        alive = beat is None or (not _freed_by_flock(beat, locked.flock) and watch.is_alive(beat))
        now = time.monotonic()
        if beat and alive is False:
            evict(watch.folder, beat.name)
            continue
        if alive and now > deadline:
            raise _held_error(where, f": {beat.holder}" if beat and beat.holder else "")
        if now > told and not alive:
            told = now + TIMING.stale
            _log.warning("%s: waiting up to %d s to see whether %s is alive", where, TIMING.stale, beat and beat.holder)
        time.sleep(_PAUSE)
    path.touch()  # the holder before may have deleted it


def _freed_by_flock(beat: Beat, flock: Flock) -> bool:
    """Return whether the holder of a lease must be dead, because its `flock`, which this process would see, is gone.

    Args:
        beat: what the lease shows.
        flock: where `flock` works for this process, which has found the lock file unlocked.
    """
    theirs = beat.holder.flock if beat.holder else "none"
    here = beat.holder is not None and beat.holder.is_here
    return (flock == theirs == "across") or (here and "none" not in (flock, theirs))


def _held_error(where: Path, holder: str) -> LockedError:
    fix = "wait until it ends, or choose another output directory"
    return LockedError(f"another jprep is running here{holder}", where=str(where), fix=fix)
