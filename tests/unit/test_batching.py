"""Batches: all items in order, each batch just large enough."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from jprep.batching import batches_of


@given(st.lists(st.text(max_size=6)), st.integers(1, 20))
def test_batches_end_with_the_item_that_reaches_the_limit(items: list[str], limit: int) -> None:
    batches = list(batches_of(items, limit, len))
    assert list(chain(*batches)) == items
    assert all(batches)
    assert all(sum(map(len, batch)) >= limit for batch in batches[:-1])
    assert all(sum(map(len, batch[:-1])) < limit for batch in batches)


def test_items_are_taken_as_batches_are_asked_for() -> None:
    numbers = iter(range(10))
    batches = batches_of(numbers, 2, lambda _: 1)
    assert (next(batches), next(numbers)) == ([0, 1], 2)
