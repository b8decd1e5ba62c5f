"""Lock a directory for one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from jprep.errors import MachineError
from jprep.io.os_errors import write_error

_PAUSE = 0.05  # seconds between two attempts


@contextlib.contextmanager
def hold_lock(path: Path, *, timeout: float = 5.0, where: Path | None = None, keep: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a file for the time of the block; the kernel releases it when this process ends.

    Worker processes that are started in the block share the lock: after an error it is held until the last of them
    ends. The holder may delete the file: a process that waits for it then locks the new file in its place.

    Args:
        path: the lock file; it is created.
        timeout: seconds to wait for another holder: workers of a killed run need a moment to exit.
        where: the output that is locked, for messages; by default the lock file's directory.
        keep: whether to keep the file after the block.

    Raises:
        MachineError: another process holds it, or it cannot be created.
    """
    where = where or path.parent
    handle = _lock(path, where, time.monotonic() + timeout)
    finished = False
    try:
        yield
        finished = True
    finally:
        if not keep:
            with contextlib.suppress(OSError):
                path.unlink()
        if finished:  # worker processes that wait for more tasks have inherited the handle, and would keep the lock
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file. Nothing is created or changed.

    A process that begins to lock the file meanwhile tries again.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # it does not exist, or another user's process made it
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def _lock(path: Path, where: Path, deadline: float) -> int:
    """Return a locked handle of the file at the path."""
    while True:
        try:
            if (handle := _attempt(path)) is not None:
                return handle
        except OSError as error:
            raise write_error(error, where) from error
        if time.monotonic() > deadline:
            fix = "wait until it ends, or choose another output directory"
            raise MachineError("another jprep is running here", where=str(where), fix=fix)
        time.sleep(_PAUSE)


def _attempt(path: Path) -> int | None:
    """Return a locked handle, or None where another process holds the file or has just deleted it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:  # the directory was deleted in between
        return None
    os.set_inheritable(handle, True)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None
