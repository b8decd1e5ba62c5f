"""Temporary directories: what a killed process leaves of them, the next one of the same use deletes."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_LOCK = ".lock"


@contextlib.contextmanager
def temporary_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new directory for the block, after deleting those of killed processes: their locks are free.

    Its lock is a file beside it, created before it and deleted after it.

    Args:
        prefix: the beginning of its name, the same for all directories of one use.
        parent: where it is made; by default the system's directory for temporary files.

    Raises:
        OSError: it cannot be made.
    """
    parent, named = parent or Path(tempfile.gettempdir()), f"{prefix}{socket.gethostname()}-"
    parent.mkdir(parents=True, exist_ok=True)
    _delete_abandoned(parent, named)
    path, lock = _new_lock(parent, named)
    folder = path.with_suffix("")
    with lock:
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            path.unlink(missing_ok=True)


def _new_lock(parent: Path, prefix: str) -> tuple[Path, IO[bytes]]:
    """Return the path of a new file, and the file, locked."""
    while True:
        number, name = tempfile.mkstemp(prefix=prefix, suffix=_LOCK, dir=parent)
        lock = os.fdopen(number, "wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if Path(name).exists():  # else another process deleted it as abandoned before it was locked
            return Path(name), lock
        lock.close()


def _delete_abandoned(parent: Path, prefix: str) -> None:
    """Delete what killed processes of this host have left: other hosts' locks may be invisible here."""
    for path in parent.glob(f"{glob.escape(prefix)}*{_LOCK}"):
        if "-" in path.name.removeprefix(prefix):
            continue  # of another host, whose name begins with this one's
        with contextlib.suppress(OSError), path.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink()
