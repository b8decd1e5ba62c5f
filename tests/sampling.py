"""Divide the cases of a long test between the daily tests and `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(number: int, cases: Iterable[Any]) -> list[Any]:
    """Mark all but every n-th case as `soak`.

    A case is a `pytest.param`, a tuple of the values of several parameters, or the value of one.
    """
    return [case if n % number == 0 else _soak(case) for n, case in enumerate(cases)]


def _soak(case: Any) -> Any:
    values = getattr(case, "values", case if isinstance(case, tuple) else (case,))
    return pytest.param(*values, id=getattr(case, "id", None), marks=pytest.mark.soak)
