"""Limits of a signal, as filters by thresholds and the parts of a mixture compare them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jprep.config import ConfigSection
from jprep.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SignalLimits(ConfigSection, frozen=True):
    """The values of a signal between limits; NaN, where the signal does not apply, counts as one of them.

    Values and limits are compared as 32-bit numbers, as a corpus stores them.

    Attributes:
        signal: column of a signal.
        min: the smallest value that is kept.
        max: the largest value that is kept.
        above: values must be greater than this.
        below: values must be less than this.
    """

    signal: str
    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None

    def check_limits(self, where: str) -> None:
        """Check the limits by themselves.

        Raises:
            ConfigError: there is no limit, there are two lower or upper ones, or one is not a number.
        """
        low, high = (self.min, self.above), (self.max, self.below)
        unordered = any(limit is not None and math.isnan(limit) for limit in (*low, *high))
        if unordered or None not in low or None not in high or low == high == (None, None):
            what = f"the rule for {self.signal!r} needs a lower limit, an upper limit, or one of each"
            raise ConfigError(what, where=where, fix="give `min` or `above`, and `max` or `below`: min = 0.2")

    def limits(self) -> tuple[np.float32, np.float32]:
        """Return the smallest and the largest 32-bit value that is kept."""
        import numpy as np

        infinity = np.float32(np.inf)
        low = -infinity if self.min is None else np.float32(self.min)
        high = infinity if self.max is None else np.float32(self.max)
        if self.above is not None:
            low = np.nextafter(np.float32(self.above), infinity)
        if self.below is not None:
            high = np.nextafter(np.float32(self.below), -infinity)
        return low, high

    def outside(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return which values are outside; NaN never is."""
        low, high = self.limits()
        return (values < low) | (values > high)
