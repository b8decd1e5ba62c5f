"""Tokens per second between two lines of the log."""

from __future__ import annotations

import time
from collections.abc import Callable


class ThroughputMeter:
    """Measures training throughput, without the time that XLA spends on compilation.

    Args:
        compile_seconds: returns the seconds that XLA has spent on compilation so far.

    Attributes:
        tokens: tokens since the last restart, without padding; the trainer adds to it.
    """

    def __init__(self, compile_seconds: Callable[[], float]) -> None:
        self._compile_seconds, self._reported = compile_seconds, compile_seconds()
        self.restart()

    def restart(self) -> None:
        """Start a new measurement."""
        self.tokens, self._start, self._compiled = 0, time.monotonic(), self._compile_seconds()

    def figures(self) -> dict[str, float]:
        """Return the figures since the last restart, and restart.

        Returns:
            `tokens_per_second`, and `compiling` (seconds since the last call) if XLA has compiled something.
        """
        compiled = self._compile_seconds()
        seconds = time.monotonic() - self._start - (compiled - self._compiled)
        figures = {"tokens_per_second": self.tokens / max(seconds, 1e-9)}
        figures |= {"compiling": compiled - self._reported} if compiled > self._reported else {}
        self._reported = compiled
        self.restart()
        return figures
