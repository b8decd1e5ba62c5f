"""What is wanted soon, made in a thread before its turn comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 2


def prefetch(make: Callable[[int], Item], first: int, end: int) -> Generator[Item, None, None]:
    """What `make` gives for each number, in order; the next two are made while one is looked at.

    Args:
        make: is called in one thread, with a number after the other. An error of its is raised where its turn comes.
        first: the first number.
        end: the number after the last.
    """
    pool, waiting = ThreadPoolExecutor(1, "jprep-ahead"), deque[Future[Item]]()
    try:
        for number in range(first, end):
            while len(waiting) <= _AHEAD and number + len(waiting) < end:
                waiting.append(pool.submit(make, number + len(waiting)))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
