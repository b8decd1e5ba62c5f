"""What a failed call of the operating system means to a user."""

from __future__ import annotations

import errno
import os

from jprep.errors import ConfigError, JprepError, MachineError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_PATHS = {
    errno.ENOENT: ("there is no such file or directory", "check the path"),
    errno.ENOTDIR: ("a part of this path is a file, not a directory", "check the path"),
    errno.EISDIR: ("expected a file, got a directory", "give a file"),
    errno.ELOOP: ("too many symbolic links", "check the links of this path"),
    errno.ENAMETOOLONG: ("this path is too long", "give a shorter one"),
}
"""Errors in a path that the user gave: what to say, and the fix."""


def translate_os_error(error: OSError) -> JprepError:
    """Return the error to show for one that no caller has explained."""
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    if error.errno in _PATHS:
        what, fix = _PATHS[error.errno]
        return ConfigError(what, where=where, fix=fix)
    if error.errno in _FULL:
        return MachineError("the disk is full", where=where, fix="free some space, then run the same command again")
    if error.errno in _DENIED:
        return MachineError("permission denied", where=where, fix="check the rights of this path, or give another one")
    fix = "check the disk or the network, then run the same command again; --verbose shows where it failed"
    return MachineError(error.strerror or str(error) or type(error).__name__, where=where, fix=fix)
