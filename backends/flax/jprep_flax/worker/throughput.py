"""Throughput, and the time that the devices were idle."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from jax import Array


class ThroughputMeter:
    """Keep the host one step ahead of the devices, and measure tokens, seconds and idle seconds.

    A thread waits for the end of each step, so that it is known although the training loop does not wait.

    Args:
        steps_per_epoch: number of steps of an epoch.
    """

    def __init__(self, steps_per_epoch: float) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._pool = ThreadPoolExecutor(1, "jprep-throughput")
        self._running: list[tuple[float, Future[float]]] = []
        self.restart()

    def __enter__(self) -> ThroughputMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def restart(self) -> None:
        """Start a new measurement."""
        self._tokens, self._steps, self._idle, self._compiling = 0, 0, 0.0, 0.0
        self._since = time.monotonic()
        self._running.clear()

    def exclude_compilation(self, seconds: float) -> None:
        """Count the last seconds as compilation, which is measured apart."""
        self._running.clear()
        self._compiling += seconds

    def step_started(self, loss: Array, tokens: int) -> None:
        """Count a step that was dispatched to the devices, and wait for the step before it.

        Args:
            loss: a result of the step.
            tokens: number of tokens of the step, without padding.
        """
        self._tokens, self._steps = self._tokens + tokens, self._steps + 1
        self._running.append((time.monotonic(), self._pool.submit(_end_time, loss)))
        if len(self._running) > 1:
            (_, previous_end), (start, _) = self._running
            self._idle += max(0.0, start - max(previous_end.result(), self._since))
            self._running.pop(0)

    def figures(self) -> dict[str, float]:
        """Return tokens per second, the idle share of the time, and seconds per epoch since the last call.

        Compilation is excluded; if there was some, its seconds are the figure `compiling`.
        """
        if self._running:
            self._running[-1][1].result()
        seconds = max(time.monotonic() - self._since - self._compiling, 1e-9)
        figures = {"tokens_per_second": self._tokens / seconds, "idle": self._idle / seconds}
        figures["epoch_seconds"] = self._steps_per_epoch * seconds / self._steps
        figures |= {"compiling": self._compiling} if self._compiling else {}
        last = self._running[-1:]
        self.restart()
        self._running += last
        return figures


def _end_time(loss: Array) -> float:
    loss.block_until_ready()
    return time.monotonic()
