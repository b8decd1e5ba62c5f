"""Parser functions that select one of their arguments: `#if`, `#ifeq` and `#switch`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Protocol

from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.placeholders import GONE, LINKED, LOST

EDGE = " \t\n" + GONE + LINKED
"""Characters around an argument: white space, and marks of dropped markup."""

SHOWN_EDGE = EDGE.replace(LOST, "")
"""The same without the mark of an unknown text."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.I | re.A)


class Arguments(Protocol):
    """The arguments of a call, without the space around them."""

    def value(self, at: int) -> str:
        """Return an argument, "" if there is none. The one before the first `|` is 0."""
        ...

    def cases(self) -> Iterator[tuple[str, Callable[[], str] | None]]:
        """Yield what each argument has before its `=`, or the whole argument, and what returns the rest, or None."""
        ...


class TextArguments:
    """The arguments of a call whose templates are expanded.

    Args:
        first: the text between the colon and the first `|`.
        rest: the text after the first `|`.
    """

    def __init__(self, first: str, rest: str) -> None:
        self._parts = [first, *rest.split("|")]

    def value(self, at: int) -> str:
        """Return an argument, "" if there is none."""
        return self._parts[at].strip(SHOWN_EDGE) if at < len(self._parts) else ""

    def cases(self) -> Iterator[tuple[str, Callable[[], str] | None]]:
        """Yield the two sides of each argument's `=`."""
        for part in self._parts[1:]:
            key, equals, value = part.partition("=")
            yield key.strip(SHOWN_EDGE), partial(str.strip, value, SHOWN_EDGE) if equals else None


def choose(call: Arguments, condition: bool) -> str:
    """Return the first argument if a condition holds, else the second one."""
    return call.value(1 if condition else 2)


def select_if(call: Arguments) -> str:
    """Return what `#if` shows; `LOST` if the condition is only unknown text."""
    condition = call.value(0)
    if not condition.strip(EDGE) and LOST in condition:
        return LOST
    return choose(call, bool(condition.strip(EDGE)))


def select_ifeq(call: Arguments) -> str:
    """Return what `#ifeq` shows; `LOST` if a side of the comparison has unknown text."""
    left, right = decode_entities(call.value(0)), decode_entities(call.value(1))
    if LOST in left or LOST in right:
        return LOST
    return call.value(2 if _equal(left, right) else 3)


def select_case(call: Arguments) -> str:
    """Return the value of the first key that is equal; `LOST` if the value or a key before it has unknown text.

    Keys without a value share that of the next one with a value.
    """
    value = decode_entities(call.value(0))
    if LOST in value:
        return LOST
    found = default_next = False
    default: Callable[[], str] | None = None
    last: str | None = None
    for test, shown in call.cases():
        last = test if shown is None else None
        if LOST in test and not found:
            return LOST
        found = found or _equal(value, decode_entities(test))
        default_next = default_next or test.lower() in _DEFAULTS
        if shown is None:
            continue
        if found:
            return shown()
        if default_next:
            default, default_next = shown, False
    if last is not None:
        return last
    return default() if default else ""


_DEFAULTS = ("#default", "#既定")

CONDITIONS: Mapping[str, Callable[[Arguments], str]] = {
    "#if": select_if,
    "#ifeq": select_ifeq,
    "#switch": select_case,
}
"""The functions of this module by name."""


def _equal(left: str, right: str) -> bool:
    """Return whether two texts are equal, or the same number."""
    if left == right:
        return True
    if len(left) > 40 or len(right) > 40 or not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
        return False
    try:
        return Decimal(left) == Decimal(right)
    except InvalidOperation:
        return False
