"""Retry calls after transient errors, and reads after those of a disk or a network file system."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from jprep.errors import MachineError

T = TypeVar("T")

PAUSES = (0.1, 0.4, 1.5, 5.0, 15.0)
"""Seconds between attempts, on average."""

_JITTER = (0.5, 1.5)
# Factors of a pause, so that processes that failed at the same moment do not try again at the same moment.

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def call_with_retries(
    call: Callable[[], T],
    pauses: Sequence[float],
    is_transient: Callable[[Exception], bool],
    report: Callable[[Exception, float], None] = lambda error, pause: None,
) -> T:
    """Call a function, again after each pause if it raised a transient error, and return its result.

    Args:
        call: the function; it is called at most `len(pauses) + 1` times.
        pauses: seconds between attempts, on average.
        is_transient: returns whether another attempt may succeed after an exception.
        report: called before each pause with the exception and the seconds.

    Raises:
        Exception: the one of the last attempt, or one that is not transient.
    """
    for pause in pauses:
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
            seconds = pause * random.uniform(*_JITTER)
            report(error, seconds)
            time.sleep(seconds)
    return call()


def is_missing(error: OSError) -> bool:
    """Return whether an error means that the file does not exist, rather than that reading it failed."""
    return error.errno in _NOT_THERE


def retry_transient(read: Callable[[], T], where: Path, fix: str) -> T:
    """Call a function that reads files, and retry after transient errors (EIO, ESTALE, ETIMEDOUT, EACCES, …).

    Args:
        read: the function; it is called at most `len(PAUSES) + 1` times.
        where: what it reads, for the error.
        fix: what the user can do about it.

    Returns:
        the result of `read`.

    Raises:
        MachineError: the last attempt failed too.
        OSError: a file does not exist; see `is_missing`. This is not retried.
    """
    try:
        return call_with_retries(read, PAUSES, lambda error: isinstance(error, OSError) and not is_missing(error))
    except OSError as error:
        if is_missing(error):
            raise
        what = f"cannot read ({error.strerror or error}), after {len(PAUSES) + 1} tries"
        raise MachineError(what, where=str(error.filename or where), fix=fix) from error
