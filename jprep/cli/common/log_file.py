"""The option `--log-file` of every command: messages and progress lines, with time stamps, escaped, appended."""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import datetime
from pathlib import Path

from jprep.errors import JprepError
from jprep.io.escaping import escaped, one_line
from jprep.io.os_errors import translate_os_error


class LogFile:
    """A file that lines are appended to.

    A failed write ends the log, not the work: it is reported once, and `failure` makes the command fail at its end.

    Args:
        path: the file; created if it does not exist. Its directory must exist.

    Attributes:
        path: the file.
        failure: the first failed write, or None.

    Raises:
        MachineError, ConfigError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: JprepError | None = None
        self._lock = threading.Lock()
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise _log_error(error, path) from error

    def write(self, text: str) -> None:
        """Append a text, each of its lines with a time stamp."""
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        lines = escaped(text).rstrip("\n").split("\n")
        data = "".join(f"{stamp}  {line}\n" for line in lines).encode("utf-8", "backslashreplace")
        with self._lock:
            failed = self.failure is None and not self._append(data)
        if failed and self.failure:
            _report(self.failure)

    def _append(self, data: bytes) -> bool:
        """Append data; return whether that worked."""
        try:
            while data:
                data = data[os.write(self._handle, data) :]
        except OSError as error:
            self.failure = _log_error(error, self.path)
            return False
        return True


def _report(failure: JprepError) -> None:
    from jprep.cli.common.output import error

    with contextlib.suppress(OSError):  # standard error is closed, too
        error(f"jprep: {failure.what}; the log ends here\n  where: {one_line(failure.where)}")


def _log_error(error: OSError, path: Path) -> JprepError:
    """Return the error to raise for a log file that cannot be opened or written."""
    found = translate_os_error(error, path, "use")
    kind = type(found)
    return kind(f"cannot write the log file: {found.what}", where=str(path), fix="give another --log-file, or none")


_log: LogFile | None = None


def open_log_file(path: Path) -> None:
    """Log the messages of this process to a file, instead of to an earlier one.

    Raises:
        MachineError, ConfigError: it cannot be opened.
    """
    from jprep.train.run.log import listeners

    global _log
    if _log is None or _log.path != path:
        _log = LogFile(path)
    if log_message not in listeners:
        listeners.append(log_message)


def logging_to_file() -> bool:
    """Return whether there is a log file."""
    return _log is not None


def log_message(text: str) -> None:
    """Append a message to the log file, if there is one."""
    if _log is not None:
        _log.write(text)


def log_failure() -> JprepError | None:
    """Return why the log file is incomplete; None if it is complete, or there is none."""
    return _log.failure if _log is not None else None


def close_log_file() -> None:
    """Log nothing any more."""
    from jprep.train.run.log import listeners

    global _log
    _log = None
    listeners[:] = [each for each in listeners if each is not log_message]
