"""Keys and values as TOML."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

import pytest

from jprep.toml_values import toml, toml_key


@pytest.mark.parametrize(
    "value",
    [
        'x"\\\n\x7f\u2028',
        [1, 2.5, True, float("inf")],
        date(2026, 1, 2),
        [],
        {},
        {"a-b_1": {"ニュース": 2, "": "x", "it's": 1, 'a"b.c': False}},
    ],
)
def test_values_are_read_back(value: Any) -> None:
    assert tomllib.loads(f"v = {toml(value)}")["v"] == value


def test_only_bare_keys_are_not_quoted() -> None:
    assert [toml_key(name) for name in ("lr_2-x", "ニュース", "a.b", "")] == ["lr_2-x", '"ニュース"', '"a.b"', '""']
