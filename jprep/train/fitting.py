"""How many rows go through a model at a time: what every backend's plan asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jprep.errors import ConfigError

SHARE = 0.85
"""Of a device's memory that a plan fills; the rest is the libraries' own."""

_MOST = 1 << 14  # rows at a time that are thought of


def divisors(own: int, most: int = _MOST) -> Iterator[int]:
    """Numbers of rows that divide a device's evenly, the largest first.

    Args:
        own: the device's rows of a batch.
        most: that are thought of.
    """
    return (rows for rows in range(min(own, most, _MOST), 0, -1) if own % rows == 0)


def rows_that_fit(own: int, asked: int, fits: Callable[[int], bool], where: str) -> int:
    """As many as are asked for, else as many as fit, and at least one.

    Args:
        own: the device's rows of a batch.
        asked: 0 leaves it to this.
        fits: whether so many fit its memory.
        where: the section of the backend's options.

    Raises:
        ConfigError: the device's rows cannot be divided as it is asked.
    """
    check_rows(own, asked, where)
    return asked or next(filter(fits, divisors(own)), 1)


def check_rows(own: int, asked: int, where: str) -> None:
    """See that a device's rows can be taken so many at a time.

    Raises:
        ConfigError: they cannot.
    """
    if asked and own % asked:
        fix = f"take a divisor of {own}, the rows of each device or process"
        raise ConfigError(f"{own} rows cannot be taken {asked} at a time", where=f"{where}.rows", fix=fix)
