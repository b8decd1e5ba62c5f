"""One run at a time in a directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from jprep.errors import MachineError
from jprep.io.atomic import write_error

_PAUSE = 0.05  # seconds between two attempts


@contextlib.contextmanager
def hold_lock(path: Path, *, patience: float = 5.0, where: Path | None = None, keep: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on the file for the time of the block; the kernel lets go of it when this process ends.

    The holder may delete the file: whoever waits for it then locks the file that stands in its place.

    Args:
        path: the lock file; it is made.
        patience: seconds to wait for another holder: workers of a killed run need a moment to notice and leave.
        where: the output that is locked, for messages; the lock file's folder by default.
        keep: whether the file stays after the block.

    Raises:
        MachineError: another process holds it, or it cannot be made.
    """
    where = where or path.parent
    handle = _lock(path, where, time.monotonic() + patience)
    try:
        yield
    finally:
        if not keep:
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(handle)


def _lock(path: Path, where: Path, deadline: float) -> int:
    """Return a locked handle of the file that lies at the path."""
    while True:
        try:
            if (handle := _attempt(path)) is not None:
                return handle
        except OSError as error:
            raise write_error(error, where) from error
        if time.monotonic() > deadline:
            fix = "wait for it, or choose another output directory"
            raise MachineError("another jprep is at work here", where=str(where), fix=fix)
        time.sleep(_PAUSE)


def _attempt(path: Path) -> int | None:
    """Return a locked handle, or None where another process holds the file or has just deleted it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:  # the folder was deleted in between
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
