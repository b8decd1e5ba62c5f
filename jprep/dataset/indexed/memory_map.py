"""Memory-map a dataset's files: opening one takes the same time for any size."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.errors import MismatchError


def map_file(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Map a file read-only; bytes after its last whole item are left out.

    Raises:
        MismatchError: the file cannot be read.
    """
    try:
        size = path.stat().st_size
        return np.memmap(path, dtype, "r", shape=(size // dtype.itemsize,)) if size else np.zeros(0, dtype)
    except OSError as error:
        raise damaged_file(path, f"cannot be read: {error.strerror}") from error


def damaged_file(path: Path, what: str) -> MismatchError:
    """Return the error for a file of a dataset that was changed or damaged."""
    return MismatchError(what, where=str(path), fix="pack the dataset again with --restart")


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the memory pages of a mapped array; the next access maps them again, from the page cache if possible.

    Otherwise a process that reads at random appears to grow to the size of the file. Arrays in memory are not affected.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
