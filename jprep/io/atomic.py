"""Write files atomically: under its final name a file is complete, or does not exist."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.shared.lease import LEASE_SUFFIX
from jprep.io.shared.network_files import is_silly_rename, replace_file
from jprep.io.shared.ownership import check_ownership

TEMPORARY_MARK = ".tmp-"
"""Part of the name of every file that is not complete yet."""

_TOKEN = re.compile(re.escape(TEMPORARY_MARK) + r"(\d+|[0-9a-f]{16}-\d+)$")
"""The end of a temporary file's name: a token of the process and a number; a process id in earlier versions."""

_NO_FSYNC = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)
"""Errors of `fsync` where a directory cannot be flushed."""

_numbers = itertools.count()
_process = os.urandom(8).hex()


def _draw_token() -> None:
    global _process
    _process = os.urandom(8).hex()


os.register_at_fork(after_in_child=_draw_token)


def temporary_name(path: Path) -> Path:
    """Return a new temporary name beside a path, unique among threads, processes and hosts that share the disk.

    It holds a random token, because containers that share a disk can have the same process ids.
    """
    return path.with_name(f"{path.name}{TEMPORARY_MARK}{_process}-{next(_numbers)}")


def final_name(name: str) -> str:
    """Return the final name of a temporary file, or "" for any other file."""
    return name[: found.start()] if (found := _TOKEN.search(name)) else ""


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same directory; after the block sync it, rename it to `path` and sync the directory.

    After an exception `path` is unchanged, and the temporary file and the directories made for it are deleted; on
    a full disk these directories stay.

    Raises:
        MachineError: the disk is full or not writable, or another host has taken over a directory that this process
            holds (see `jprep.io.shared.ownership`).
    """
    temporary, made = temporary_name(path), missing_folders(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        failpoint("output.opened")
        yield temporary
        failpoint("output.written")
        fsync_path(temporary)
        check_ownership()
        replace_file(temporary, path)
        fsync_path(path.parent)
        failpoint("output.renamed")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            made = []  # another process may be about to write there: it shall not find its directory gone
        check_ownership()  # whoever has taken over the directory has deleted the file
        raise write_error(error, path) from error
    finally:
        with contextlib.suppress(OSError):  # it does not exist, or its directory cannot be written
            temporary.unlink()
        remove_empty_folders(made)


def missing_folders(folder: Path) -> list[Path]:
    """Return the directories that creating this one would create, the innermost first."""
    return list(itertools.takewhile(lambda each: not each.exists(), (folder, *folder.parents)))


def remove_empty_folders(folders: Iterable[Path]) -> None:
    """Delete those of some directories that are empty, the innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):  # it is not empty, or was never created
            folder.rmdir()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a small file atomically; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files of killed writers below a directory; symbolic links are not followed.

    All writers must hold a lock that this process holds now, or a live writer's file would be deleted too.
    """
    for parent, _, names in os.walk(folder):
        for name in names:
            if final_name(name):
                Path(parent, name).unlink(missing_ok=True)


def remove_contents(folder: Path, keep: Container[str], last: str = "") -> None:
    """Delete the contents of a directory.

    Args:
        folder: the directory; it stays.
        keep: the names of files that stay; a lock stays with its lease.
        last: the name of the file to delete last.
    """
    for path in sorted(folder.iterdir(), key=lambda path: path.name == last):
        if path.name.partition(LEASE_SUFFIX)[0] not in keep:
            remove_tree(path) if path.is_dir() else remove_file(path)


def remove_file(path: Path) -> None:
    """Delete a file, if it exists; one that NFS keeps because it is still open somewhere goes by itself."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        if not is_silly_rename(path.name):
            raise


def remove_tree(folder: Path) -> None:
    """Delete a directory, if it exists."""
    shutil.rmtree(folder, ignore_errors=True)


def fsync_path(path: Path) -> None:
    """Flush a file or a directory to the disk; some file systems cannot flush directories."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FSYNC or not path.is_dir():
            raise
    finally:
        os.close(handle)
