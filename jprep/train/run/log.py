"""`log.txt`: the output of the workers, of limited size; and messages to the user on stderr."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from jprep.errors import MachineError
from jprep.io.escaping import escaped
from jprep.io.os_errors import write_error

LOG = "log.txt"

Say = Callable[[str], None]
"""Shows a message to the user."""

listeners: list[Say] = []
"""Also called with each message of `on_stderr`, not escaped; they raise nothing. The command line's log file is one."""

LOG_BYTES = 64 << 20
"""A larger log is truncated; its end is kept."""

_KEPT = 1 << 20
_LINE = 300  # characters
_TAIL = 6000  # bytes to show when a run fails
_REPORT_TAIL = 1 << 16  # bytes in which a report of torchrun on every rank of a host fits

_REPORT = re.compile(r"^[^\n]*elastic.multiprocessing.api\b[^\n]*failed \(exitcode: .*?^Root Cause.*?^=+$", re.M | re.S)
"""What torchrun prints after a rank has failed. It never tells more of the reason than the rank's own output."""


def cut_log(run: Path) -> None:
    """Truncate a `log.txt` larger than `LOG_BYTES`: keep its end, after a line that says how much was removed."""
    path = run / LOG
    with contextlib.suppress(OSError), path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= LOG_BYTES:
            return
        file.seek(size - _KEPT)
        kept = file.read()
        file.truncate(0)  # workers append (O_APPEND), so they continue after what is written here
        file.seek(0)
        file.write(b"[jprep: %d bytes were removed here]\n" % (size - len(kept)) + kept)


def on_stderr(text: str) -> None:
    """Print a message on stderr, escaped. A closed terminal is not an error: no run may fail because of a message."""
    for listener in listeners:
        listener(text)
    with contextlib.suppress(OSError):
        sys.stderr.write(escaped(text) + "\n")


@contextlib.contextmanager
def open_log(run: Path) -> Iterator[int]:
    """Yield a file descriptor that appends to the log, for a worker's output.

    Raises:
        MachineError: the log cannot be written.
    """
    try:
        handle = os.open(run / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise write_error(error, run / LOG) from error
    try:
        yield handle
    finally:
        os.close(handle)


def start_logged(run: Path, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a worker, in a process group of its own, whose output is appended to the log.

    Args:
        run: the run directory.
        command: the command that starts it.
        environ: all of its environment variables.

    Raises:
        MachineError: it cannot be started, or the log cannot be written.
    """
    with open_log(run) as log:
        try:
            return subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            what, fix = f"the worker cannot be started: {error.strerror}", "check the backend with `jprep doctor`"
            raise MachineError(what, where=command[0], fix=fix) from error


def last_log_line(run: Path) -> str:
    """Return the last line of the log with a letter or digit, shortened, that is not part of torchrun's report."""
    lines = reversed(_REPORT.sub("", log_tail(run, _REPORT_TAIL)).splitlines())
    return next((line.strip() for line in lines if any(map(str.isalnum, line))), "")[:_LINE]


def log_tail(run: Path, size: int = _TAIL) -> str:
    """Return the end of the log, of at most `size` bytes."""
    try:
        data = (run / LOG).read_bytes()[-size:]
    except OSError:
        return "(it cannot be read)"
    return data.decode("utf-8", "backslashreplace").rstrip()
