"""Tensors as they lie in files: where their bytes are, and how to read them a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jprep.errors import InputError
from jprep.io.safetensors_file import DTYPE_BYTES, Floats, TensorEntry, read_blocks

_STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_BLOCK = 1 << 16  # elements


class StoredTensor(NamedTuple):
    """A tensor in a file.

    Attributes:
        path: the file.
        entry: its dtype, shape and bytes.
        strides: elements between neighbours in each dimension; empty if it is stored in row-major order.
    """

    path: Path
    entry: TensorEntry
    strides: tuple[int, ...] = ()

    def blocks(self, name: str) -> Iterator[Floats]:
        """Yield its elements in fp32 and row-major order, a block at a time.

        Args:
            name: its name, for errors.

        Raises:
            InputError: an element is not finite in fp32, or the file is truncated.
        """
        return self._strided(name) if self.strides else read_blocks(self.path, name, self.entry)

    def equals(self, other: StoredTensor, name: str) -> bool:
        """Return whether another tensor has the same shape and numbers.

        Args:
            other: the other tensor.
            name: a name, for errors.

        Raises:
            InputError: see `blocks`.
        """
        if self.entry.shape != other.entry.shape or not {self.entry.dtype, other.entry.dtype} <= DTYPE_BYTES.keys():
            return False
        if bool(self.strides) != bool(other.strides) or self.entry.dtype != other.entry.dtype:  # other blocks
            return np.array_equal(self.rows(name), other.rows(name))
        return all(map(np.array_equal, self.blocks(name), other.blocks(name)))

    def _strided(self, name: str) -> Iterator[Floats]:
        dtype, shape, start, size = self.entry
        width = DTYPE_BYTES[dtype]
        stored: np.memmap[Any, Any] = np.memmap(self.path, _STORED[dtype], "r", start, (size // width,))
        view = np.lib.stride_tricks.as_strided(stored, shape, [width * each for each in self.strides], writeable=False)
        rows = view.reshape(1) if not shape else view
        for row in rows:
            flat = np.ascontiguousarray(row).reshape(-1)
            for at in range(0, len(flat), _BLOCK):
                yield _finite(flat[at : at + _BLOCK], dtype, name, self.path)

    def rows(self, name: str) -> Floats:
        """Return all of it, in fp32; shape as in `entry`."""
        parts = list(self.blocks(name))
        return (np.concatenate(parts) if parts else np.zeros(0, np.float32)).reshape(self.entry.shape)


def _finite(block: Any, dtype: str, name: str, path: Path) -> Floats:
    floats: Floats = (block.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else block.astype(np.float32)
    if not np.isfinite(floats).all():
        fix = "use a checkpoint from before its training failed"
        raise InputError(f"the tensor {name!r} contains NaN or infinity", where=str(path), fix=fix)
    return floats
