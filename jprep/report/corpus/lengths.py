"""A histogram of document lengths in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PER_DECADE = 100  # a quantile is at most 2.4 % too large
_DECADES = 10


class LengthHistogram:
    """Counts lengths in bins of equal width on a logarithmic scale."""

    def __init__(self) -> None:
        self._edges = _edges(_PER_DECADE)
        self._counts = np.zeros(len(self._edges) + 1, dtype=np.int64)
        self.longest = 0

    def add(self, lengths: NDArray[np.int64]) -> None:
        """Count some lengths (int64)."""
        if len(lengths):
            self._counts += np.bincount(np.searchsorted(self._edges, lengths, "left"), minlength=len(self._counts))
            self.longest = max(self.longest, int(lengths.max()))

    def quantile(self, share: float) -> int:
        """Return a length that this share of the documents does not exceed, at most 2.4 % above the smallest."""
        total = int(self._counts.sum())
        bin_number = int(np.searchsorted(self._counts.cumsum(), share * total, "left")) if total else 0
        return min(self.longest, int(self._edges[min(bin_number, len(self._edges) - 1)]))

    def bins(self, per_decade: int = 10) -> tuple[list[float], list[int]]:
        """Return edges and counts of wide bins, from the shortest to the longest document.

        Args:
            per_decade: bins between 1 and 10, 10 and 100, ….

        Returns:
            The edges, one more than the counts; both empty without documents.
        """
        used = np.flatnonzero(self._counts)
        if not len(used):
            return [], []
        wide = _edges(per_decade)
        place = np.searchsorted(wide, np.append(self._edges, self._edges[-1]), "left")
        counts = np.bincount(place, weights=self._counts, minlength=len(wide) + 1).astype(np.int64)
        first, last = int(place[used[0]]), int(place[used[-1]])
        edges = wide[first - 1 : last + 1] if first else [0.5, *wide[: last + 1]]
        return [float(edge) for edge in edges], counts[first : last + 1].tolist()


def _edges(per_decade: int) -> NDArray[np.int64]:
    """Return the upper ends of the bins (int64); those of a divisor of `_PER_DECADE` are a part of the finest ones."""
    exponents = np.arange(per_decade * _DECADES + 1) * (_PER_DECADE // per_decade) / _PER_DECADE
    return np.unique(np.ceil(10**exponents).astype(np.int64))
