"""Calls of a user's loss and head: what is the same in every framework."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from jprep.train.hooks.loading import Hook
from jprep.train.models.model_family import model_width

Axis = int | None
"""Size of an axis; None if it is not known while a program is traced."""


class ArrayType(NamedTuple):
    """The arrays of a framework.

    Attributes:
        name: with an article, for messages.
        is_array: returns whether a value is one.
        sum_example: how a hook sums losses, for messages.
        count_example: how a hook counts labels, for messages.
    """

    name: str
    is_array: Callable[[Any], bool]
    sum_example: str
    count_example: str

    def describe(self, value: Any) -> str:
        """Return a value's shape, length or type."""
        if self.is_array(value):
            return f"{self.name} of shape {tuple(value.shape)}"
        return f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__


def loss_and_count(hook: Hook, returned: Any, arrays: ArrayType) -> tuple[Any, Any]:
    """Return the two values that a loss must return: an array without dimensions, and a number or an array.

    Args:
        hook: the loss.
        returned: what it returned.
        arrays: the framework's arrays.

    Raises:
        ConfigError: it returned something else.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise hook.error(f"returned {arrays.describe(returned)}: return (sum of the losses, number of labels)")
    total, count = returned
    if not arrays.is_array(total) or len(total.shape):
        what = f"returned {arrays.describe(total)} as its loss: return a sum, {arrays.name} without dimensions"
        fix = f"end it with {arrays.sum_example}, and leave the division by the number of labels to jprep"
        raise hook.error(what, fix=fix)
    return total, count


def check_count(hook: Hook, count: Any, arrays: ArrayType) -> None:
    """Check that the count of a loss, converted to an array, has no dimensions.

    Raises:
        ConfigError: it has some.
    """
    if len(count.shape):
        what = f"returned {arrays.describe(count)} as its count"
        raise hook.error(f"{what}: return a number, e.g. {arrays.count_example}")


def head_config(config: dict[str, Any]) -> SimpleNamespace:
    """Return what a head is created from: the values of transformers' config, `hidden_size` and `num_labels`."""
    return SimpleNamespace(**config | {"hidden_size": model_width(config), "num_labels": len(config["id2label"])})


def check_head_outputs(hook: Hook, outputs: Any, expected: tuple[Axis, int], arrays: ArrayType) -> None:
    """Check that a head returned an array of shape (rows, labels).

    Args:
        hook: the head's class.
        outputs: what the head returned.
        expected: (rows, labels).
        arrays: the framework's arrays.

    Raises:
        ConfigError: it returned something else.
    """
    shape = tuple(outputs.shape) if arrays.is_array(outputs) else type(outputs).__name__
    if isinstance(shape, str) or not _is_shape(shape, expected):
        raise hook.error(f"returned {shape}: return (rows, labels), here {expected}")


def _is_shape(shape: tuple[Axis, ...], expected: tuple[Axis, int]) -> bool:
    return len(shape) == 2 and shape[1] == expected[1] and (None in (shape[0], expected[0]) or shape[0] == expected[0])
