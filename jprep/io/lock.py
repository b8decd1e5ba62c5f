"""One run at a time in a directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from jprep.errors import MachineError
from jprep.io.atomic import disk_error


@contextlib.contextmanager
def locked(path: Path, *, patience: float = 5.0) -> Iterator[None]:
    """Hold an exclusive lock on the file for the time of the block; the kernel lets go of it when this process ends.

    Args:
        path: the lock file; it is made, and stays.
        patience: seconds to wait for another holder: workers of a killed run need a moment to notice and leave.

    Raises:
        MachineError: somebody else holds it, or it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise disk_error(error, path.parent) from error
    os.set_inheritable(handle, True)
    try:
        _acquire(handle, path, time.monotonic() + patience)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, path: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                fix = "wait for it, or choose another output directory"
                raise MachineError("another jprep is at work here", where=str(path.parent), fix=fix) from error
            time.sleep(0.05)
