"""Assign documents to the parts of a mixture, by the columns of their corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.dataset.mix_parts import MixPart

NO_PART = -1
"""The number of a document that no part takes: in a list of parts, the entry after them."""

_SIZE = "near_size"  # key of `meta`
_MAX_DIGITS = 18  # that fit 64 bits


class PartAssignment:
    """Gives each document to the first part that takes it.

    Args:
        parts: the parts, in order.

    Attributes:
        columns: columns of the corpus that are needed.
    """

    def __init__(self, parts: Sequence[MixPart]) -> None:
        self._parts = parts
        signals = dict.fromkeys(limits.signal for part in parts for limits in part.where)
        self._by_size = any(part.cluster_size for part in parts)
        self.columns = ["source", *(f"signals.{name}" for name in signals), *(["meta"] if self._by_size else [])]

    def __len__(self) -> int:
        return len(self._parts)

    def parts_of(self, batch: Any) -> npt.NDArray[np.int64]:
        """Return the number of the part of each document of a record batch with these columns, (rows,).

        It is `NO_PART` for documents that no part takes.
        """
        found = np.full(batch.num_rows, NO_PART, np.int64)
        sizes = _cluster_sizes(batch["meta"]) if self._by_size else np.zeros(0, np.int64)
        for number, part in enumerate(self._parts):
            takes = found == NO_PART
            if part.source:
                takes &= _equal(batch["source"], part.source)
            for limits in part.where:
                takes &= ~limits.outside(batch["signals"].field(limits.signal).to_numpy(zero_copy_only=False))
            if size := part.cluster_size:
                takes &= (sizes >= size.min) & (size.max is None or sizes <= size.max)
            found[takes] = number
        return found


def _equal(column: Any, value: str) -> npt.NDArray[np.bool_]:
    import pyarrow.compute as pc

    found: npt.NDArray[np.bool_] = pc.equal(column, value).to_numpy(zero_copy_only=False)
    return found


def _cluster_sizes(meta: Any) -> npt.NDArray[np.int64]:
    """Return the size of each document's cluster from its `meta`; corpora of format 1 have none."""
    import pyarrow.compute as pc

    sizes = np.ones(len(meta), np.int64)
    keys, values = map(meta.flatten().field, ("key", "value"))
    own = pc.equal(keys, _SIZE).to_numpy(zero_copy_only=False)
    documents = pc.list_parent_indices(meta).to_numpy(zero_copy_only=False)
    found = values.filter(own).to_pylist()  # a reader may have a field of this name
    sizes[documents[own]] = [int(value) if value.isdecimal() and len(value) <= _MAX_DIGITS else 1 for value in found]
    return sizes
