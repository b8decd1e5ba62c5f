"""Compute items in a background thread before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 2


def prefetch(make: Callable[[int], Item], first: int, end: int) -> Generator[Item, None, None]:
    """Yield `make(first)`, …, `make(end - 1)`, computed in a thread up to two items ahead.

    Args:
        make: called in one thread, with ascending numbers. Its exceptions are raised when that item is due.
        first: the first number.
        end: the number after the last.
    """
    pool, waiting = ThreadPoolExecutor(1, "jprep-prefetch"), deque[Future[Item]]()
    try:
        for number in range(first, end):
            while len(waiting) <= _AHEAD and number + len(waiting) < end:
                waiting.append(pool.submit(make, number + len(waiting)))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
