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
        ConfigError: no signal that works here has this column.
    """
    if found := _with_column(column, known):
        return found
    registered, missing = _registered()
    if found := _with_column(column, registered):
        return found
    what = f"no signal that works here has the column {column!r}"
    if name := _owner(column, missing):
        error = missing[name]
        named = f"name it by `of`: {error.fix}" if isinstance(error, ConfigError) else error.fix
        raise ConfigError(f"{what}: {name}: {error.what}", where=where, fix=named)
    columns = [each for signal in (*known, *registered) for each in signal.columns]
    others = f"; signals that need options or a library: {', '.join(missing)} (name one by `of`)" if missing else ""
    raise ConfigError(what, where=where, fix=suggest_name(column, columns) + others)


def signal_to_keep(column: str) -> str:
    """Return how to name the signal with a column: its name, or a table with the options that it needs; "" for none."""
    registered, missing = _registered()
    if found := _with_column(column, registered):
        return found.name
    example, end, _ = missing[name].fix.partition("}") if (name := _owner(column, missing)) else ("", "", "")
    return example + end if example.startswith("{ use") else name


def _owner(column: str, names: Iterable[str]) -> str:
    """Return the one of some signals whose columns begin like this one, or ""."""
    return next((name for name in names if column.startswith(f"{name}_")), "")


def _with_column(column: str, signals: Iterable[Signal]) -> Signal | None:
    return next((signal for signal in signals if column in signal.columns), None)


def _registered() -> tuple[list[Signal], dict[str, JprepError]]:
    """Return the registered signals that work with their default options, and by name why others do not."""
    working, missing = list[Signal](), dict[str, JprepError]()
    for name in plugins().names("signal"):
        try:
            signal: Signal = make_step("signal", name)
            signal.columns  # noqa: B018 - a signal that needs a model tells it here
        except JprepError as error:
            missing[name] = error
        else:
            working.append(signal)
    return working, missing
