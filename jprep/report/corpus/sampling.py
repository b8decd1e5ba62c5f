"""Samples that depend on the ids of the documents only: the same corpus gives the same sample, in any order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

_RANGE = 1 << 64
_BEGINNING = 64  # characters of a text that tell documents of the same id apart


def sample_keys(texts: Any) -> NDArray[np.uint64]:
    """Return a hash of each text of an Arrow array (uint64). A sample is the documents whose ids have the smallest."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts.cast(pa.binary()).to_pylist()), np.uint64, len(texts))


def document_keys(ids: Any, texts: Any) -> NDArray[np.uint64]:
    """Return the key of each document (uint64): ids may repeat, hence the beginning of its text counts too."""
    return sample_keys(pc.binary_join_element_wise(ids, pc.utf8_slice_codeunits(texts, 0, _BEGINNING), "\x1e"))


def key_limit(share: float) -> int:
    """Return the number below which a share of all keys lies."""
    return min(_RANGE - 1, int(max(0.0, share) * _RANGE))


class SmallestKeys(Generic[T]):
    """Keeps the items with the smallest keys.

    Args:
        size: number of items to keep.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, int, T]] = []  # the largest key is first: keys and numbers are negated
        self._offered = 0

    def offer(self, keys: NDArray[np.uint64], item: Callable[[int], T]) -> None:
        """Keep those of a batch whose keys are among the smallest so far.

        Args:
            keys: key of each row of the batch (uint64).
            item: makes the item of a row; called only for rows that are kept.
        """
        for row in self._candidates(keys):
            entry = (-int(keys[row]), -(self._offered + int(row)))
            if len(self._heap) < self._size:
                heapq.heappush(self._heap, (*entry, item(int(row))))
            elif entry > self._heap[0][:2]:
                heapq.heapreplace(self._heap, (*entry, item(int(row))))
        self._offered += len(keys)

    def _candidates(self, keys: NDArray[np.uint64]) -> Sequence[int]:
        """Return the rows whose keys may be kept, the smallest first, as many as are kept at most."""
        rows = np.arange(len(keys))
        if len(self._heap) == self._size and self._size:
            rows = rows[keys < np.uint64(-self._heap[0][0])]
        order = np.argsort(keys[rows], kind="stable")[: self._size]
        chosen: Sequence[int] = rows[order].tolist()
        return chosen

    def items(self) -> list[T]:
        """Return the items, that with the smallest key first."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: (-entry[0], -entry[1]))]
