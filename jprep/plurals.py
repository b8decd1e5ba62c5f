"""Numbers of things in messages: 1 task, 2,000 tasks, 0.5 epochs."""

from __future__ import annotations


def counted(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Args:
        number: how many there are.
        noun: the noun in the singular.
        plural: the noun in the plural, if it is not the singular with an s.
    """
    shown = f"{number:g}" if isinstance(number, float) else f"{number:,}"
    return f"{shown} {noun if number == 1 else plural or noun + 's'}"


def and_more(count: int, shown: int) -> str:
    """Return what follows a shortened list: " and 3 more"; "" if all of it is shown.

    Args:
        count: length of the list.
        shown: the most that are shown.
    """
    return f" and {count - shown:,} more" if count > shown else ""
