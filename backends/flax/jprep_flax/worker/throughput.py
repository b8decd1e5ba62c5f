"""How fast the devices are, and how long they had nothing to do."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from jax import Array


class ThroughputMeter:
    """Keeps the host one step ahead of the devices, and no further; counts tokens, seconds and idle seconds.

    A thread waits for each step, so the time of its end is known although nobody else waits for it.

    Args:
        epoch: how many steps it has.
    """

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch
        self._pool = ThreadPoolExecutor(1, "jprep-pace")
        self._steps: list[tuple[float, Future[float]]] = []
        self.restart()

    def __enter__(self) -> ThroughputMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def restart(self) -> None:
        """Begin to count."""
        self._tokens, self._begun, self._idle, self._compiling, self._since = 0, 0, 0.0, 0.0, time.monotonic()
        self._steps.clear()

    def compiled(self, seconds: float) -> None:
        """XLA has compiled for so long just now: that is told apart."""
        self._steps.clear()
        self._compiling += seconds

    def begun(self, loss: Array, tokens: int) -> None:
        """A step was given to the devices; this waits for the one before."""
        self._tokens, self._begun = self._tokens + tokens, self._begun + 1
        self._steps.append((time.monotonic(), self._pool.submit(_ended, loss)))
        if len(self._steps) > 1:
            (_, before), (begun, _) = self._steps
            self._idle += max(0.0, begun - max(before.result(), self._since))
            self._steps.pop(0)

    def figures(self) -> dict[str, float]:
        """Tokens a second, the share of the time that the devices waited, and an epoch's seconds, since the last time.

        Padding is no token. Compiling is no part of it; where there was some, its seconds are a figure of their own.
        """
        if self._steps:
            self._steps[-1][1].result()
        seconds = max(time.monotonic() - self._since - self._compiling, 1e-9)
        found = {"tokens_per_second": self._tokens / seconds, "idle": self._idle / seconds}
        found["epoch_seconds"] = self._epoch * seconds / self._begun
        found |= {"compiling": self._compiling} if self._compiling else {}
        kept = self._steps[-1:]
        self.restart()
        self._steps += kept
        return found


def _ended(loss: Array) -> float:
    loss.block_until_ready()
    return time.monotonic()
