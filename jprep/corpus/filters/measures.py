"""Filters that compare counts and fractions with limits."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jprep.corpus.document import Verdict
from jprep.corpus.filters.verdicts import BatchFilter, verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Measure(NamedTuple):
    """A count or a fraction of each document of a batch, and the limits outside of which a document is dropped.

    Attributes:
        name: name of the measure.
        reason: the reason of the documents that it drops.
        part: a number for each document, shape [documents]; NaN where the measure does not apply.
        whole: what `part` is a fraction of, shape [documents]; 0 where the measure does not apply. None for a count.
        least: the smallest value that is kept; None means no limit.
        most: the largest value that is kept; None means no limit. A fraction has one limit.
    """

    name: str
    reason: str
    part: NDArray[Any]
    whole: NDArray[Any] | None
    least: float | None = None
    most: float | None = None

    def outside(self) -> list[tuple[NDArray[np.bool_], str]]:
        """Return which documents are outside each limit, shape [documents], with the reason."""
        whole, applies = (1, True) if self.whole is None else (self.whole, self.whole > 0)
        limits = [(np.less, self.least), (np.greater, self.most)]
        with np.errstate(invalid="ignore"):  # an infinite limit times an empty text
            return [(applies & beyond(self.part, x * whole), self.reason) for beyond, x in limits if x is not None]

    def values(self) -> list[float | None]:
        """Return the value of each document; None if the measure does not apply to it."""
        parts: list[float] = self.part.tolist()
        if self.whole is None:
            return [None if math.isnan(part) else int(part) for part in parts]
        limit = next(limit for limit in (self.least, self.most) if limit is not None)
        pairs = zip(parts, self.whole.tolist(), strict=True)
        return [None if math.isnan(part) or not whole else fraction(part, whole, limit) for part, whole in pairs]


class MeasureFilter(BatchFilter):
    """Drops a document if a measure is outside its limits; the first such measure gives the reason."""

    @abstractmethod
    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return what is measured of the documents of a batch; names and limits depend on the config only."""

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        return verdicts(len(batch), *(dropped for each in self.measures(batch) for dropped in each.outside()))

    def measure_all(self, batch: TextBatch) -> list[dict[str, float]]:
        """Return the measures that apply to each document of a batch, by name."""
        measures = self.measures(batch)
        names = [each.name for each in measures]
        return [
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in zip(*(each.values() for each in measures), strict=True)
        ]

    def thresholds(self) -> dict[str, Threshold]:
        """Return the limits by measure."""
        return {each.name: (each.least, each.most) for each in self.measures(TextBatch([]))}


def fraction(count: float, total: float, threshold: float) -> float:
    """Return `count / total`, rounded so that it compares with the threshold as `count` does with `threshold * total`.

    Filters compare products, since a text may have no characters to divide by. A quotient is rounded differently, and
    could show a document on the other side of the threshold: 7 < 0.07 * 100 is true, since the product is
    7.000000000000001, but 7 / 100 < 0.07 is false.

    Args:
        count: the part.
        total: the whole; not zero.
        threshold: the limit that the filter compares with.
    """
    value, limit = count / total, threshold * total
    side = (count > limit) - (count < limit)
    if side == (value > threshold) - (value < threshold):
        return value
    return math.nextafter(threshold, side * math.inf) if side else threshold
