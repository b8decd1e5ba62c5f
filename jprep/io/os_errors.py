"""Translate errors of the operating system to errors that say what happened, where, and the fix."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from jprep.errors import ConfigError, JprepError, MachineError

Action = Literal["read", "write", "use"]
"""What failed: reading an input, writing an output, or an operation whose purpose is not known."""


class _Report(NamedTuple):
    """The error to raise; `{}` in the message stands for that of the operating system."""

    kind: type[JprepError]
    what: str
    fix: str


_RETRY = "then run the same command again to resume"
_FULL = _Report(MachineError, "the disk is full", f"free some space, {_RETRY}")
_CANNOT_CREATE = _Report(MachineError, "the directory cannot be created: {}", "choose another output directory")

_REPORTS: dict[Action, dict[int, _Report]] = {
    "read": {
        errno.ENOENT: _Report(ConfigError, "there is no such file", "check the path"),
    },
    "write": {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EACCES: _Report(MachineError, "no permission to write", "choose another output directory"),
        errno.ENOENT: _CANNOT_CREATE,
        errno.ENOTDIR: _CANNOT_CREATE,
    },
    "use": {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EACCES: _Report(MachineError, "permission denied", "check the permissions, or give another path"),
        errno.ENOENT: _Report(ConfigError, "there is no such file or directory", "check the path"),
        errno.ENOTDIR: _Report(ConfigError, "a part of this path is a file, not a directory", "check the path"),
        errno.EISDIR: _Report(ConfigError, "expected a file, got a directory", "give a file"),
        errno.ELOOP: _Report(ConfigError, "too many symbolic links", "check the links of this path"),
        errno.ENAMETOOLONG: _Report(ConfigError, "this path is too long", "give a shorter one"),
    },
}
for _reports in (_REPORTS["write"], _REPORTS["use"]):
    _reports[errno.EPERM] = _reports[errno.EROFS] = _reports[errno.EACCES]

_OTHER: dict[Action, _Report] = {
    "read": _Report(MachineError, "cannot read the file: {}", "check its permissions, and the disk or the network"),
    "write": _Report(MachineError, "cannot write: {}", f"fix that, {_RETRY}"),
    "use": _Report(
        MachineError, "{}", "check the disk or the network, then run the same command again; --verbose shows details"
    ),
}


def translate_os_error(error: OSError, path: str | Path | None = None, action: Action = "use") -> JprepError:
    """Return the error to raise for an error of the operating system.

    Args:
        error: the error.
        path: the file that it is about; by default the one that the error names.
        action: what failed.
    """
    if path is None:
        path = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    report = _REPORTS[action].get(error.errno or 0, _OTHER[action])
    message = error.strerror or str(error) or type(error).__name__
    return report.kind(report.what.format(message), where=str(path), fix=report.fix)


def write_error(error: OSError, path: Path) -> JprepError:
    """Return the error to raise for a failed write."""
    return translate_os_error(error, path, "write")


@contextmanager
def translate_read_errors(path: str) -> Iterator[None]:
    """Translate what opening and reading an input raises, for the duration of the block.

    Args:
        path: the input's path or URL.

    Raises:
        ConfigError: there is no such file, or the path is not valid.
        MachineError: it cannot be read.
    """
    try:
        yield
    except JprepError:
        raise
    except ValueError as error:
        raise ConfigError(f"this is not a valid path: {error}", where=path, fix="check the path") from error
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)  # fsspec raises it without an errno
        number = errno.ENOENT if missing else error.errno
        raise translate_os_error(OSError(number, error.strerror or str(error)), path, "read") from error
