"""`log.txt`: what workers print, up to a size; and what the user is told meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from jprep.io.atomic import write_error
from jprep.io.escaping import escaped

LOG = "log.txt"

Say = Callable[[str], None]

LOG_BYTES = 64 << 20
"""A log that is larger is cut; its end is kept."""

_KEPT = 1 << 20
_LINE = 300  # characters
_TAIL = 6000  # bytes that are shown when a run fails


def cut_log(run: Path) -> None:
    """Keep log.txt below `LOG_BYTES`: of one that is larger only the end is kept, after a line that says so."""
    path = run / LOG
    with contextlib.suppress(OSError), path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= LOG_BYTES:
            return
        file.seek(size - _KEPT)
        kept = file.read()
        file.truncate(0)  # workers append: they go on behind what is written now
        file.seek(0)
        file.write(b"[jprep: %d bytes that stood here were cut]\n" % (size - len(kept)) + kept)


def on_stderr(text: str) -> None:
    """Print a message to the user, escaped. No run fails because it cannot be printed: the terminal may be closed."""
    with contextlib.suppress(OSError):
        sys.stderr.write(escaped(text) + "\n")


@contextlib.contextmanager
def open_log(run: Path) -> Iterator[int]:
    """A handle to append by, for a worker's output.

    Raises:
        MachineError: it cannot be written.
    """
    try:
        handle = os.open(run / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise write_error(error, run / LOG) from error
    try:
        yield handle
    finally:
        os.close(handle)


def last_log_line(run: Path) -> str:
    """The last line of the log that says something, or what of it tells enough; launchers end theirs with rules."""
    lines = reversed(log_tail(run).splitlines())
    return next((line.strip() for line in lines if any(map(str.isalnum, line))), "")[:_LINE]


def log_tail(run: Path) -> str:
    """What a worker said last."""
    try:
        data = (run / LOG).read_bytes()[-_TAIL:]
    except OSError:
        return "(it cannot be read)"
    return data.decode("utf-8", "backslashreplace").rstrip()
