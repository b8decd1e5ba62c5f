"""Files whose parts are written by several tasks, on one host or on several.

Each task writes its own range, which begins and ends at a whole page (or at the end of the file), and syncs it before
its receipt is written. Nobody writes a page of another task, so that no host overwrites what another one has written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from jprep.errors import DamagedError
from jprep.io.failpoints import failpoint
from jprep.io.os_errors import translate_read_errors, write_error
from jprep.io.shared.ownership import check_ownership
from jprep.io.verified_files import RUN_AGAIN

_PIECE = 1 << 20  # bytes read at a time


class PartWriter:
    """Writes a part of a file; see `write_part`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Write the next bytes of the part."""
        self._digest.update(data)
        self._file.write(data)

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._digest.hexdigest()


@contextlib.contextmanager
def write_part(path: Path, start: int, size: int) -> Iterator[PartWriter]:
    """Write a part of a file, and sync it at the end of the block.

    Args:
        path: the file; it is created with holes in place of parts that are not written yet.
        start: the first byte of the part.
        size: bytes of the whole file.

    Raises:
        MachineError: the disk is full or not writable.
    """
    try:
        check_ownership()
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            check_ownership()  # the file is not that of a run which has taken over in between
            if os.fstat(file.fileno()).st_size != size:  # every task sets the same size
                file.truncate(size)
            failpoint("output.opened")
            file.seek(start)
            yield PartWriter(file)
            file.flush()
            failpoint("output.written")
            os.fsync(file.fileno())
    except OSError as error:
        raise write_error(error, path) from error


def verified_sha256(path: Path, parts: Sequence[tuple[int, str]]) -> str:
    """Return the SHA-256 of a whole file, and compare each part with its own hash.

    Args:
        path: the file.
        parts: the end and the SHA-256 of each part, in order.

    Raises:
        DamagedError: a part has changed.
        MachineError: the file cannot be read.
    """
    whole, at = hashlib.sha256(), 0
    with translate_read_errors(str(path)), path.open("rb") as file:
        for stop, sha256 in parts:
            digest = hashlib.sha256()
            while at < stop and (data := file.read(min(_PIECE, stop - at))):
                digest.update(data)
                whole.update(data)
                at += len(data)
            if digest.hexdigest() != sha256:
                raise DamagedError("a part of this file was changed or damaged", where=str(path), fix=RUN_AGAIN)
    return whole.hexdigest()
