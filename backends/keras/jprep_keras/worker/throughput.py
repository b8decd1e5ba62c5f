"""Tokens per second between two lines of the log."""

from __future__ import annotations

import time


class ThroughputMeter:
    """Measure training throughput, without the time of compilation."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a new measurement."""
        self._tokens, self._compiling, self._start = 0, 0.0, time.monotonic()

    def count(self, tokens: int) -> None:
        """Count a step's tokens, without padding."""
        self._tokens += tokens

    def exclude_compilation(self, seconds: float) -> None:
        """Count the last seconds as compilation, which is measured apart."""
        self._compiling += seconds

    def figures(self) -> dict[str, float]:
        """Return tokens per second since the last call, and the seconds of compilation if there was some."""
        seconds = max(time.monotonic() - self._start - self._compiling, 1e-9)
        figures = {"tokens_per_second": self._tokens / seconds}
        figures |= {"compiling": self._compiling} if self._compiling else {}
        self.restart()
        return figures
