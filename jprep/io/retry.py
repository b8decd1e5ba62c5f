"""Reads that are tried again: an error of a disk or a network file system says nothing about a file's content."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jprep.errors import MachineError

T = TypeVar("T")

PAUSES = (0.1, 0.4, 1.5, 5.0, 15.0)
"""Seconds between two tries."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def is_missing(error: OSError) -> bool:
    """Return whether an error says that no such file exists, rather than that it could not be read just now."""
    return error.errno in _NOT_THERE


def retry_transient(read: Callable[[], T], where: Path, fix: str) -> T:
    """Call a function that reads files, again after each transient error (EIO, ESTALE, ETIMEDOUT, EACCES, …).

    Args:
        read: is called at most `len(PAUSES) + 1` times.
        where: what it reads, for the error.
        fix: what the user can do about it.

    Returns:
        what `read` returns.

    Raises:
        MachineError: the last try failed too.
        OSError: a file does not exist; see `is_missing`. Such an error is not retried.
    """
    for pause in (*PAUSES, None):
        try:
            return read()
        except OSError as error:
            if is_missing(error):
                raise
            if pause is None:
                what = f"cannot read ({error.strerror or error}), after {len(PAUSES) + 1} tries"
                raise MachineError(what, where=str(error.filename or where), fix=fix) from error
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")
