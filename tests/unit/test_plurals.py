"""Nouns agree with their numbers."""

from __future__ import annotations

import pytest

from jprep.plurals import and_more, counted


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 epochs"),
        (1, "1 epoch"),
        (2000, "2,000 epochs"),
        (1.0, "1 epoch"),
        (0.5, "0.5 epochs"),
        (1.5, "1.5 epochs"),
    ],
)
def test_a_noun_agrees_with_its_number(number: float, shown: str) -> None:
    assert counted(number, "epoch") == shown


def test_an_irregular_plural_is_given() -> None:
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(("count", "more"), [(0, ""), (5, ""), (6, " and 1 more"), (2005, " and 2,000 more")])
def test_a_shortened_list_tells_how_much_is_left_out(count: int, more: str) -> None:
    assert and_more(count, 5) == more
