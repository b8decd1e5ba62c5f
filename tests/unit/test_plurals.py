"""Numbers agree with their nouns."""

from __future__ import annotations

import pytest

from jprep.plurals import counted


@pytest.mark.parametrize(("number", "shown"), [(0, "0 tasks"), (1, "1 task"), (2000, "2,000 tasks")])
def test_one_is_singular(number: int, shown: str) -> None:
    assert counted(number, "task") == shown


def test_a_plural_can_be_given() -> None:
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]
