"""Functions whose results are the same on every machine; those of libraries differ by processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DOUBLINGS = 20


def exp_of_negative(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nearly exp(values) for values up to 0, by multiplications."""
    powers: NDArray[np.float64] = np.maximum(1 + values / (1 << _DOUBLINGS), 0)
    for _ in range(_DOUBLINGS):
        powers *= powers
    return powers


def interpolate(x: NDArray[np.float64], xs: NDArray[np.float64], ys: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the piecewise linear function through points at each x, constant beyond them.

    The operations are separate: `np.interp` may fuse a multiplication and an addition, which rounds differently.

    Args:
        x: where to evaluate the function.
        xs: abscissas of the points, ascending, shape [points], at least one.
        ys: ordinates of the points, shape [points].
    """
    if len(xs) == 1:
        return np.full(len(x), ys[0])
    at = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    part = np.clip((x - xs[at]) / (xs[at + 1] - xs[at]), 0, 1)
    added = part * (ys[at + 1] - ys[at])
    result: NDArray[np.float64] = ys[at] + added
    return result
