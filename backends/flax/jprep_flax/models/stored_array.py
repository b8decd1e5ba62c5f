"""An array of a model in the tensors of a file, of which each device reads its own part only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jprep.io.safetensors_file import Floats, Shape

Slices = tuple[slice, ...]


class StoredArray:
    """An array of a model: one tensor, or those of all layers, stacked. A padded embedding has further rows of zeros.

    Args:
        tensors: the tensors, memory-mapped perhaps; several are those of the layers, in ascending order.
        shape: the array's shape. Its last dimensions hold the numbers of a tensor in the same order; the first one is
            that of the layers, if there are several tensors.

    Attributes:
        shape: the array's shape.
    """

    def __init__(self, tensors: Sequence[Floats], shape: Shape) -> None:
        self._tensors, self.shape = tensors, shape

    def part(self, slices: Slices) -> Floats:
        """Return a copy of a part, given a slice along each axis; nothing else is read."""
        sizes = [len(range(*one.indices(size))) for one, size in zip(slices, self.shape, strict=True)]
        found = np.zeros(sizes, np.float32)
        if len(self._tensors) == 1:
            _fill(found, self._tensors[0], self.shape, slices)
        else:
            for place, tensor in enumerate(self._tensors[slices[0]]):
                _fill(found[place, ...], tensor, self.shape[1:], slices[1:])
        return found

    def whole(self) -> Floats:
        """Return a copy of the whole array."""
        return self.part((slice(None),) * len(self.shape))


def _fill(found: Floats, tensor: Floats, shape: Shape, slices: Slices) -> None:
    """Copy a part of a tensor in a shape that may have more rows."""
    if tensor.size == math.prod(shape):
        found[...] = tensor.reshape(shape)[slices]
    else:
        rows = tensor.reshape(-1, *shape[1:])[slices]
        found[: len(rows)] = rows
