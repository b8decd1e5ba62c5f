"""Check files that a receipt or a manifest names against their SHA-256 before they are used.

Every reader of such a file uses this module. A file is hashed once per process, and again only if it changes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from jprep.errors import DamagedError
from jprep.io.hashing import cached_sha256
from jprep.io.os_errors import translate_read_errors
from jprep.io.shared.network_files import retry_stale, wait_for_file

RUN_AGAIN = "run the same command again: it repeats the task that wrote the file"
"""The fix for a damaged file of unfinished work."""

_PIECE = 1 << 20  # bytes copied at a time


def read_if_exists(path: Path) -> bytes | None:
    """Read a small file; return None if it does not exist.

    Raises:
        MachineError: it cannot be read.
    """
    with translate_read_errors(str(path)), contextlib.suppress(FileNotFoundError):
        return retry_stale(path.read_bytes)
    return None


def find_damage(path: Path, sha256: str) -> str:
    """Return what is wrong with a file that was written with this hash, or "".

    On a file system that other hosts share, a missing file is waited for: it may just have been written there.

    Raises:
        MachineError: it cannot be read.
    """
    if not _exists(path):
        return "is missing"
    return "" if cached_sha256(path) == sha256 else "was changed or damaged"


def find_range_damage(path: Path, start: int, stop: int, sha256: str) -> str:
    """Return what is wrong with a part of a file that was written with this hash, or "".

    Args:
        path: the file.
        start: first byte of the part.
        stop: the byte after it.
        sha256: hash of the part.

    Raises:
        MachineError: it cannot be read.
    """
    if not _exists(path):
        return "is missing"
    digest, left = hashlib.sha256(), stop - start
    with translate_read_errors(str(path)), path.open("rb") as file:
        file.seek(start)
        while left and (data := file.read(min(left, _PIECE))):
            digest.update(data)
            left -= len(data)
    return "" if digest.hexdigest() == sha256 else "was changed or damaged"


def verify_file(path: Path, sha256: str, fix: str = RUN_AGAIN) -> Path:
    """Return the path of a file whose content matches its hash.

    Args:
        path: the file.
        sha256: its hash in the receipt or the manifest.
        fix: the fix that the error suggests.

    Raises:
        DamagedError: it is missing, or its content differs.
        MachineError: it cannot be read.
    """
    if damage := find_damage(path, sha256):
        raise DamagedError(f"this file {damage}", where=str(path), fix=fix)
    return path


def read_verified(path: Path, sha256: str, fix: str = RUN_AGAIN) -> bytes:
    """Read a file that fits into memory, and compare what was read; see `verify_file`."""
    data = read_if_exists(path)
    if data is None:
        raise _missing(path, fix)
    _compare(hashlib.sha256(data).hexdigest(), sha256, path, fix)
    return data


def copy_verified(path: Path, sha256: str, write: Callable[[bytes], object], fix: str = RUN_AGAIN) -> None:
    """Pass a file's bytes on piece by piece, and at its end compare what was read; see `verify_file`.

    The caller has to discard what it received if this raises.
    """
    if not _exists(path):
        raise _missing(path, fix)
    digest = hashlib.sha256()
    with translate_read_errors(str(path)):
        file = retry_stale(lambda: path.open("rb"))
    with file:
        while data := _read_piece(file.read, path):
            digest.update(data)
            write(data)
    _compare(digest.hexdigest(), sha256, path, fix)


def copy_range(path: Path, start: int, stop: int, write: Callable[[bytes], object]) -> None:
    """Pass a range of bytes of a file on piece by piece; its hash is for the caller to check."""
    with translate_read_errors(str(path)):
        file = path.open("rb")
    with file:
        file.seek(start)
        left = stop - start
        while left and (data := _read_piece(file.read, path)[:left]):
            left -= len(data)
            write(data)


def _read_piece(read: Callable[[int], bytes], path: Path) -> bytes:
    with translate_read_errors(str(path)):
        return read(_PIECE)


def _exists(path: Path) -> bool:
    with translate_read_errors(str(path)):
        return wait_for_file(path)


def _missing(path: Path, fix: str) -> DamagedError:
    return DamagedError("this file is missing", where=str(path), fix=fix)


def _compare(found: str, sha256: str, path: Path, fix: str) -> None:
    if found != sha256:
        raise DamagedError("this file was changed or damaged", where=str(path), fix=fix)
