"""Files that a receipt or a manifest names, checked against its SHA-256 before they are used.

Every reader of such a file goes through this module. A file is hashed once in a process, and again only if its size,
times or inode change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jprep.errors import DamagedError
from jprep.io.atomic import file_sha256
from jprep.io.inputs.paths import translate_read_errors

RUN_AGAIN = "run the same command again: the task that wrote it is done again"
"""The fix for a damaged file of work under way."""

_SETTLED = 2_000_000_000
"""Nanoseconds. A file that changed more recently could change again and show the same times."""

_COPIED = 1 << 20  # bytes copied at a time


class FileState(NamedTuple):
    """What the file system says of a file; any change of the content changes it, unless it is the disk's own doing."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileState:
        """Return what a call of `stat` says."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def is_settled(self, now_ns: int) -> bool:
        """Return whether the file changed so long before `now_ns` that another change would show other times."""
        return now_ns - max(self.mtime_ns, self.ctime_ns) > _SETTLED


def read_if_exists(path: Path) -> bytes | None:
    """Read a small file; None if there is none.

    Raises:
        MachineError: it cannot be read.
    """
    with translate_read_errors(str(path)), contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def file_state(path: Path) -> FileState:
    """Return a file's state.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be looked at.
    """
    with translate_read_errors(str(path)):
        return FileState.of(path.stat())


_hashes: dict[Path, tuple[FileState, str]] = {}
"""The files that this process hashed, with their states at that time."""


def find_damage(path: Path, sha256: str) -> str:
    """Return what is wrong with a file that was written with this hash, or "".

    Raises:
        MachineError: it cannot be read.
    """
    if not _exists(path):
        return "is missing"
    return "" if _sha256_once(path) == sha256 else "is not what was written"


def verify_file(path: Path, sha256: str, fix: str = RUN_AGAIN) -> Path:
    """Return the path of a file whose content is what was written.

    Args:
        path: the file.
        sha256: its hash, as the receipt or the manifest has it.
        fix: what the error tells the user to do.

    Raises:
        DamagedError: it is missing, or its content is another.
        MachineError: it cannot be read.
    """
    if damage := find_damage(path, sha256):
        raise DamagedError(f"this file {damage}", where=str(path), fix=fix)
    return path


def read_verified(path: Path, sha256: str, fix: str = RUN_AGAIN) -> bytes:
    """Read a file that fits into memory, and check what was read; see `verified`."""
    data = read_if_exists(path)
    if data is None:
        raise _missing(path, fix)
    _compare(hashlib.sha256(data).hexdigest(), sha256, path, fix)
    return data


def copy_verified(path: Path, sha256: str, write: Callable[[bytes], object], fix: str = RUN_AGAIN) -> None:
    """Hand a file's bytes on piece by piece, and check at its end what was read; see `verified`.

    The caller has to discard what it received if this raises.
    """
    if not _exists(path):
        raise _missing(path, fix)
    digest = hashlib.sha256()
    with translate_read_errors(str(path)):
        file = path.open("rb")
    with file:
        while data := _piece(file.read, path):
            digest.update(data)
            write(data)
    _compare(digest.hexdigest(), sha256, path, fix)


def _piece(read: Callable[[int], bytes], path: Path) -> bytes:
    with translate_read_errors(str(path)):
        return read(_COPIED)


def _exists(path: Path) -> bool:
    with translate_read_errors(str(path)), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()  # newer Pythons' `exists` would take an error of the disk for absence
        return True
    return False


def _missing(path: Path, fix: str) -> DamagedError:
    return DamagedError("this file is missing", where=str(path), fix=fix)


def _compare(found: str, sha256: str, path: Path, fix: str) -> None:
    if found != sha256:
        raise DamagedError("this file is not what was written", where=str(path), fix=fix)


def _sha256_once(path: Path) -> str:
    """The file's hash; from memory if this process hashed it in the state that it is in."""
    state = file_state(path)
    known = _hashes.get(path)
    if known and known[0] == state:
        return known[1]
    with translate_read_errors(str(path)):
        sha256 = file_sha256(path)
    if state.is_settled(time.time_ns()):
        _hashes[path] = state, sha256
    return sha256
