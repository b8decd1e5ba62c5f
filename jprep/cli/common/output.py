"""Print results, notes and errors: text from outside is escaped, and `--quiet` is respected.

Results go to standard output, notes and errors to standard error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, TextIO, cast

import click

from jprep.cli.common.log_file import log_message
from jprep.display_width import display_width, pad
from jprep.io.escaping import escaped, escaped_json, one_line
from jprep.plurals import counted


class Level(IntEnum):
    """How much a command prints besides its results and errors."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


_level = Level.NORMAL


def set_level(level: Level) -> None:
    """Set how much this process prints."""
    global _level
    _level = level
    logging.getLogger("jprep").setLevel(logging.INFO if verbose() else logging.NOTSET)


def quiet() -> bool:
    """Return whether only results, warnings and errors are printed."""
    return _level is Level.QUIET


def verbose() -> bool:
    """Return whether details are printed: tracebacks of errors, each line of an installer."""
    return _level is Level.VERBOSE


def live() -> bool:
    """Return whether progress may redraw a line: standard error is a terminal, and `--quiet` is not given."""
    return sys.stderr.isatty() and not quiet()


def echo(text: str = "") -> None:
    """Print a line of a result."""
    log_message(text)
    click.echo(escaped(text))


def describe_files(patterns: Sequence[str]) -> str:
    """Return the number and the size of the inputs that match patterns, for `--dry-run`.

    Raises:
        ConfigError: a pattern matches nothing.
        MachineError: an input cannot be read.
    """
    from jprep.io.inputs.paths import expand_patterns, size_of

    paths = expand_patterns(patterns)
    sizes = [size_of(path) for path in paths]
    known = [size for size in sizes if size is not None]
    unknown = len(sizes) - len(known)
    shown = [f"{sum(known):,} bytes"] if known else []
    shown += [f"size of {unknown:,} unknown" if known else "size unknown"] if unknown else []
    return ", ".join([counted(len(paths), "file"), *shown])


def echo_json(value: Any) -> None:
    """Print a result as one line of JSON."""
    import msgspec

    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a path that is not UTF-8
        import json

        text = json.dumps(msgspec.to_builtins(value))
    click.echo(escaped_json(text))


def error(text: str) -> None:
    """Print an error."""
    log_message(text)
    click.echo(escaped(text), err=True)


def note(text: str) -> None:
    """Print a note to standard error; under `--quiet` to the log file only."""
    log_message(text)
    if not quiet():
        click.echo(escaped(text), err=True)


def hint(text: str) -> None:
    """Print a hint after a result; nothing under `--quiet`."""
    if not quiet():
        echo(text)


def next_steps(*commands: str) -> None:
    """Print the commands that usually follow, one per line; nothing without any."""
    if not commands:
        return
    hint("\n".join(["\nnext:", *(f"  {command}" for command in commands)]))


def echo_fields(fields: Mapping[str, str]) -> None:
    """Print values by name, aligned below a heading; both are shown as they are."""
    width = max(map(display_width, fields))
    for name, value in fields.items():
        echo(f"  {pad(name, width)}  {value}")


def table(title: str, figures: Mapping[str, float]) -> None:
    """Print figures by name: counts with separators of thousands, other numbers with four decimals."""
    if figures:
        echo(f"\n{title}")
        named = [(one_line(name), figure) for name, figure in figures.items()]
        width = max(display_width(name) for name, _ in named)
        for name, figure in named:
            echo(f"  {pad(name, width)}  {figure:>15{',' if isinstance(figure, int) else ',.4f'}}")


def print_columns(rows: Sequence[Sequence[str]], *, right: bool = False) -> None:
    """Print rows as aligned columns.

    Args:
        rows: the rows, each with the same number of cells, at least two.
        right: align all columns right but the first and the last. The last one is never padded.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*shown, strict=True)]
    for first, *middle, last in shown:
        cells = [pad(cell, width, right=right) for cell, width in zip(middle, widths[1:], strict=False)]
        echo("  ".join([pad(first, widths[0]), *cells, last]).rstrip())


def redraw(text: str, *, done: bool = False) -> None:
    """Replace the current line of the terminal; end it if `done`."""
    click.echo(f"\r\x1b[K{escaped(text)}", nl=done, err=True)


def content_stream() -> TextIO:
    """Return the stream for content such as a corpus as text: raw for a pipe or file, escaped for a terminal."""
    return cast(TextIO, _Escaping()) if sys.stdout.isatty() else sys.stdout


class _Escaping:
    """Write text to standard output, escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


class LogHandler(logging.Handler):
    """Print warnings of the library, and notes under `--verbose`, to standard error, escaped, one per line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning or a note."""
        text = one_line(record.getMessage())
        if record.levelno >= logging.WARNING:
            error(f"warning: {text}")
        else:
            note(text)
