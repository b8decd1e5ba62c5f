"""Metrics of a user: functions of the predictions and labels of the whole validation split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.train.hooks.loading import Hook

PREFIX = "metrics/"
"""What the names of these metrics begin with, so that none hides a built-in one."""


def hook_metrics(
    hooks: Iterable[Hook], predictions: npt.NDArray[np.float32], labels: npt.NDArray[Any]
) -> dict[str, float]:
    """Return the metrics of all hooks by name.

    A function that returns a number gives `metrics/FUNCTION`, one that returns a mapping `metrics/KEY` for each key.

    Args:
        hooks: the functions. Each gets copies of both arrays.
        predictions: logits, (rows, classes), of `classify`; scores, (rows,), of `regress`.
        labels: classes, int64, or scores, float32; (rows,).

    Raises:
        ConfigError: a function failed, or returned something else, or a name that another one has returned.
    """
    found: dict[str, float] = {}
    for hook in hooks:
        for name, value in _named(hook, hook(predictions.copy(), labels.copy())).items():
            if name in found:
                raise hook.error(f"returned {name.removeprefix(PREFIX)!r}, the name of another metric")
            found[name] = value
    return found


def _named(hook: Hook, returned: Any) -> dict[str, float]:
    values = returned if isinstance(returned, Mapping) else {hook.name: returned}
    return {PREFIX + _name(hook, name): _number(hook, name, value) for name, value in values.items()}


def _name(hook: Hook, name: Any) -> str:
    if not isinstance(name, str) or not name.isprintable() or not name:
        raise hook.error(f"returned the name {name!r}, and names of metrics are text")
    return name


def _number(hook: Hook, name: Any, value: Any) -> float:
    """Return a number that may be NaN: a metric can be undefined."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise hook.error(f"returned {type(value).__name__} for {name!r}: return a number, or a dict of numbers by name")
    number = float(value)
    return number if math.isfinite(number) else math.nan
