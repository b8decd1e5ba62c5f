"""Files that several hosts read and write: a network file system shows changes late.

Such a file system caches directory entries, also missing ones, for up to a minute. Listing the directory makes it ask
the server again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jprep.io.shared.file_systems import file_system_of
from jprep.io.shared.host import steady_clock

T = TypeVar("T")

VISIBLE_SECONDS = 65.0
"""How long a file that another host has written may stay invisible: NFS caches entries for 60 seconds by default."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_STALE_ATTEMPTS = 5
_SILLY = re.compile(r"\.(nfs[0-9a-f]{8,}|fuse_hidden[0-9a-f]{8,})")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)

_waited: dict[Path, float] = {}
"""Directories in which a file was waited for in vain, and until when that is not repeated."""


def is_silly_rename(name: str) -> bool:
    """Return whether a name is one that NFS or FUSE gives to a deleted file that is still open."""
    return bool(_SILLY.fullmatch(name))


def retry_stale(call: Callable[[], T]) -> T:
    """Return the result of a call; repeat it after ESTALE: another host has replaced a file or a directory."""
    for attempt in range(_STALE_ATTEMPTS):
        try:
            return call()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            time.sleep(_FIRST_PAUSE * attempt)
    return call()


def wait_for_file(path: Path, seconds: float | None = None) -> bool:
    """Return whether a file exists that another host has written.

    On a local disk this is one look. On a shared file system it lists the directory again and waits for the file. A
    directory in which one was waited for in vain is not waited for again for as long.

    Args:
        path: the file or directory.
        seconds: how long to wait; by default `VISIBLE_SECONDS`.
    """
    if retry_stale(lambda: _is_there(path)):
        return True
    return file_system_of(path.parent).shared and _appears(path, VISIBLE_SECONDS if seconds is None else seconds)


def exists_now(path: Path) -> bool:
    """Return whether a file exists; if it seems missing, its directory is listed, which renews what is cached."""
    if retry_stale(lambda: _is_there(path)):
        return True
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path in retry_stale(lambda: [*path.parent.iterdir()]) and _is_there(path)
    return False


def _appears(path: Path, seconds: float) -> bool:
    begun, pause = steady_clock(), _FIRST_PAUSE
    if begun < _waited.get(path.parent, 0.0):
        return False
    while not exists_now(path):
        if (left := begun + seconds - steady_clock()) <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
    else:
        return True
    _waited[path.parent] = steady_clock() + seconds
    return False


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def replace_file(source: Path, target: Path) -> None:
    """Rename a file or a directory over another one; also where the reply of the server was lost.

    Then the client repeats the request, and is told that the source does not exist.

    Raises:
        OSError: it was not renamed.
    """
    before = source.stat()
    try:
        source.replace(target)
    except FileNotFoundError:
        if not (_is_there(target) and os.path.samestat(before, target.stat())):
            raise


def create_exclusively(path: Path, data: bytes = b"") -> bool:
    """Create a file that does not exist, and return whether it was this call that created it.

    It is a link to a file of a unique name, because a repeated request for exclusive creation finds its own file.

    Args:
        path: the file.
        data: its content.

    Raises:
        OSError: the directory cannot be written to.
    """
    own = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    own.write_bytes(data)
    try:
        os.link(own, path)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return _create_without_link(path, data)
        if not isinstance(error, FileExistsError | FileNotFoundError):
            raise
        with own.open("rb") as file:  # opening it asks the server for the number of links
            return os.fstat(file.fileno()).st_nlink == 2
    finally:
        own.unlink(missing_ok=True)
    return True


def _create_without_link(path: Path, data: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True
