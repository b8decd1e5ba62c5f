"""Fractions that lie on the same side of a threshold as the products that a filter compares."""

from __future__ import annotations

import math


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
