"""Group consecutive items into batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def batches_of(items: Iterable[Item], limit: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield consecutive items in batches, none of them empty.

    Args:
        items: the items, read lazily.
        limit: a batch ends once its size reaches this.
        size: the size of an item, e.g. `len`.
    """
    batch, total = list[Item](), 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= limit:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
