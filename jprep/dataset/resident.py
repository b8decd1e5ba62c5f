"""What a process holds of a mapped file."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


def release(array: npt.NDArray[Any]) -> None:
    """Let go of the pages of a mapped array; the next look at one maps it again, from the system's cache if it can.

    Without it a process that reads here and there grows, as it seems, to the size of the file. Arrays in memory stay.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
