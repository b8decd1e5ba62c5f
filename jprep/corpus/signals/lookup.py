"""Find the signal that measures a column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jprep.config import suggest_name
from jprep.corpus.config import make_step
from jprep.corpus.step import Signal
from jprep.errors import ConfigError, JprepError
from jprep.plugins import plugins


def find_signal(column: str, known: Sequence[Signal], where: str) -> Signal:
    """Return the signal with a column: one of `known`, or else a registered signal with its default options.

    Args:
        column: name of the column.
        known: the signals to look at first, in order.
        where: the filter, for the error.

    Raises:
        ConfigError: no signal has this column.
    """
    if found := _with_column(column, known):
        return found
    registered = list(_registered())
    if found := _with_column(column, registered):
        return found
    columns = [each for signal in (*known, *registered) for each in signal.columns]
    raise ConfigError(f"no signal has the column {column!r}", where=where, fix=suggest_name(column, columns))


def _with_column(column: str, signals: Iterable[Signal]) -> Signal | None:
    return next((signal for signal in signals if column in signal.columns), None)


def _registered() -> Iterable[Signal]:
    """Yield the registered signals that work with their default options; others need a model, or a library."""
    for name in plugins().names("signal"):
        try:
            signal: Signal = make_step("signal", name)
            signal.columns  # noqa: B018 - a signal that needs a model tells it here
        except JprepError:
            continue
        yield signal
