"""Files that are whole under their final name, or not there at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from jprep.errors import JprepError, MachineError
from jprep.io.failpoints import failpoint

TEMPORARY_MARK = ".tmp-"
"""In the name of every file that is not whole yet."""

_TOKEN = re.compile(re.escape(TEMPORARY_MARK) + r"(\d+|[0-9a-f]{16}-\d+)$")
"""What ends the name of a temporary file: a process's token and a number; a process id in earlier versions."""

_numbers = itertools.count()
_process = os.urandom(8).hex()


def _draw_token() -> None:
    global _process
    _process = os.urandom(8).hex()


os.register_at_fork(after_in_child=_draw_token)


def temporary_name(path: Path) -> Path:
    """Return a new temporary name beside a path, unique among threads, processes and hosts that share the disk.

    A process id would not do: containers that share a disk have equal ones.
    """
    return path.with_name(f"{path.name}{TEMPORARY_MARK}{_process}-{next(_numbers)}")


def final_name(name: str) -> str:
    """Return the final name of a temporary file; "" for the name of any other file."""
    return name[: found.start()] if (found := _TOKEN.search(name)) else ""


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; at the end sync it, rename it to `path` and sync the folder.

    After an exception `path` is as it was, and the temporary file is gone, with the folders that were made for it.

    Raises:
        MachineError: the disk is full or not writable.
    """
    temporary, made = temporary_name(path), missing_folders(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        failpoint("output.opened")
        yield temporary
        failpoint("output.written")
        fsync_path(temporary)
        temporary.replace(path)
        fsync_path(path.parent)
        failpoint("output.renamed")
    except OSError as error:
        raise write_error(error, path) from error
    finally:
        with contextlib.suppress(OSError):  # it is gone, or the folder itself is what is wrong
            temporary.unlink()
        remove_empty_folders(made)


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders that making this one would make, the innermost first."""
    return list(itertools.takewhile(lambda each: not each.exists(), (folder, *folder.parents)))


def remove_empty_folders(folders: Iterable[Path]) -> None:
    """Delete those of some folders that are empty, the innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):  # something is in it, or it was never made
            folder.rmdir()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a small file in one go; see `atomic`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_error(error: OSError, path: Path) -> JprepError:
    """Say what a failed write means to a user."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what, fix = "the disk is full", "free some space, then run the same command again to resume"
    elif error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        what, fix = "may not write here", "choose another output directory"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        what, fix = f"the folder cannot be made: {error.strerror}", "choose another output directory"
    else:
        what, fix = f"cannot write: {error.strerror or error}", "fix that, then run the same command again to resume"
    return MachineError(what, where=str(path), fix=fix)


def file_sha256(path: Path) -> str:
    """The file's SHA-256, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_temporary_files(folder: Path) -> None:
    """Delete what killed writers left unfinished below a folder, not through symbolic links.

    Only for a folder whose writers all hold a lock that this process holds now: the file of a living one would go too.
    """
    for place, _, names in os.walk(folder):
        for name in names:
            if final_name(name):
                Path(place, name).unlink(missing_ok=True)


def remove_contents(folder: Path, keep: str, last: str = "") -> None:
    """Delete what is in a folder.

    Args:
        folder: stays.
        keep: the name of what stays in it.
        last: the name of what goes last.
    """
    for path in sorted(folder.iterdir(), key=lambda path: path.name == last):
        if path.name != keep:
            remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Delete a folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def fsync_path(path: Path) -> None:
    """Have a file or a folder on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
