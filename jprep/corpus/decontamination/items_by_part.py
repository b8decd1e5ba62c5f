"""Which items of test sets have which parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jprep.corpus.decontamination.ngrams import Integers


class ItemsByPart:
    """Which items have which parts.

    Args:
        parts_of: the parts of each item, each once.
        count: number of parts.
    """

    def __init__(self, parts_of: Sequence[Sequence[int]], count: int) -> None:
        self.parts_of = parts_of
        sizes = np.array([len(parts) for parts in parts_of], np.int64)
        parts = np.array([part for each in parts_of for part in each], np.int64)
        order = np.argsort(parts, kind="stable")
        self._items = np.repeat(np.arange(len(parts_of)), sizes)[order]
        self._parts = parts[order]
        self._starts = np.searchsorted(self._parts, np.arange(count + 1))

    def sums(self, values: Integers) -> Integers:
        """Return the sum of the values of each item's parts."""
        return np.bincount(self._items, values[self._parts], minlength=len(self.parts_of)).astype(np.int64)

    def summed(self, pieces: Integers, parts: Integers, values: Integers) -> tuple[Integers, Integers, Integers]:
        """Return the sums of values by piece and item: pieces, items, sums."""
        counts = self._starts[parts + 1] - self._starts[parts]
        rows = np.repeat(self._starts[parts] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        keys = np.repeat(pieces, counts) * len(self.parts_of) + self._items[rows]
        keys, inverse = np.unique(keys, return_inverse=True)
        sums = np.bincount(inverse, np.repeat(values, counts), minlength=len(keys)).astype(np.int64)
        return *np.divmod(keys, len(self.parts_of)), sums
