"""Number distinct integers, many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FEWEST_BITS = 12
_EMPTY = np.uint64(np.iinfo(np.uint64).max)


class IntegerNumbers:
    """Numbers distinct integers from 0 on: a hash table with open addressing, whose operations take whole arrays.

    It has at least twice as many slots as integers, so that few look-ups need more than one.
    """

    def __init__(self) -> None:
        self._size = 0
        self._allocate(_FEWEST_BITS)

    def __len__(self) -> int:
        return self._size

    def number(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Return the number of each integer, which is below 2**64 - 1. New ones get the next numbers."""
        numbers = self._find(keys)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            self._add(np.unique(keys[new]))
            numbers[new] = self._find(keys[new])
        return numbers

    def _allocate(self, bits: int) -> None:
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1
        self._keys: Keys = np.full(1 << bits, _EMPTY)
        self._numbers = np.full(1 << bits, -1, np.int64)

    def _slots(self, keys: Keys) -> Any:
        return ((keys * _FACTOR) >> self._shift).astype(np.intp)

    def _find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Return the number of each integer, or -1."""
        slots = self._slots(keys)
        found = self._keys.take(slots)
        others = np.flatnonzero(found != keys)
        while len(others := others[self._keys.take(slots[others]) != _EMPTY]):
            slots[others] = (slots[others] + 1) & self._last
            others = others[self._keys.take(slots[others]) != keys[others]]
        numbers: npt.NDArray[np.int64] = self._numbers.take(slots)
        return numbers

    def _add(self, keys: Keys) -> None:
        """Add distinct integers, none of which has a number."""
        numbers = np.arange(self._size, self._size + len(keys))
        self._size += len(keys)
        if 2 * self._size > len(self._keys):
            used = self._numbers >= 0
            old, old_numbers = self._keys[used], self._numbers[used]
            self._allocate((4 * self._size).bit_length())
            self._place(old, old_numbers)
        self._place(keys, numbers)

    def _place(self, keys: Keys, numbers: npt.NDArray[np.int64]) -> None:
        slots = self._slots(keys)
        left = np.arange(len(keys))
        while len(left):
            free = left[self._keys.take(slots[left]) == _EMPTY]
            self._keys[slots[free]] = keys[free]  # of several that want a slot, one gets it
            placed = self._keys.take(slots[left]) == keys[left]
            self._numbers[slots[left[placed]]] = numbers[left[placed]]
            left = left[~placed]
            slots[left] = (slots[left] + 1) & self._last
