"""A dataset's files, mapped: opening one costs the same whatever its size."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.errors import MismatchError


def map_file(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Map a file, read-only; bytes behind its last whole item are left out.

    Raises:
        MismatchError: it cannot be read.
    """
    try:
        size = path.stat().st_size
        return np.memmap(path, dtype, "r", shape=(size // dtype.itemsize,)) if size else np.zeros(0, dtype)
    except OSError as error:
        raise damaged_file(path, f"cannot be read: {error.strerror}") from error


def damaged_file(path: Path, what: str) -> MismatchError:
    """A file of a dataset is not what was written."""
    return MismatchError(what, where=str(path), fix="`jprep dataset pack … --restart` makes it again")


def release_pages(array: npt.NDArray[Any]) -> None:
    """Let go of the pages of a mapped array; the next look at one maps it again, from the system's cache if it can.

    Without it a process that reads here and there grows, as it seems, to the size of the file. Arrays in memory stay.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
