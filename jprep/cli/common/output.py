"""All that commands print goes through here: text from outside is escaped, and `--quiet` is heeded.

Results go to standard output, notes and errors to standard error.
"""

from __future__ import annotations

import logging
import sys
from enum import IntEnum
from typing import Any, TextIO, cast

import click

from jprep.io.escaping import escaped, escaped_json, one_line


class Level(IntEnum):
    """How much a command says besides its results and errors."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


_level = Level.NORMAL


def set_level(level: Level) -> None:
    """Choose how much this process says."""
    global _level
    _level = level


def quiet() -> bool:
    """Return whether only results, warnings and errors are wanted."""
    return _level is Level.QUIET


def verbose() -> bool:
    """Return whether details are wanted: tracebacks of errors, each line of an installer."""
    return _level is Level.VERBOSE


def live() -> bool:
    """Return whether progress may redraw a line: standard error is a terminal, and nobody asked for quiet."""
    return sys.stderr.isatty() and not quiet()


def echo(text: str = "") -> None:
    """Print a result for people."""
    click.echo(escaped(text))


def echo_json(value: Any) -> None:
    """Print a result for programs: one line of JSON."""
    import msgspec

    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a path that is not UTF-8
        import json

        text = json.dumps(msgspec.to_builtins(value))
    click.echo(escaped_json(text))


def error(text: str) -> None:
    """Print an error."""
    click.echo(escaped(text), err=True)


def note(text: str) -> None:
    """Print what a user should know besides the result; nothing under `--quiet`."""
    if not quiet():
        click.echo(escaped(text), err=True)


def hint(text: str) -> None:
    """Print what to do next, after a result for people; nothing under `--quiet`."""
    if not quiet():
        echo(text)


def next_steps(*commands: str) -> None:
    """Print commands that a user may want to run next, a line each."""
    hint("\n".join(["\nnext:", *(f"  {command}" for command in commands)]))


def redraw(text: str, *, done: bool = False) -> None:
    """Replace the terminal's current line; `done` ends it."""
    click.echo(f"\r\x1b[K{escaped(text)}", nl=done, err=True)


def content_stream() -> TextIO:
    """Return where a product goes, such as a corpus as text: raw into a pipe or file, escaped on a terminal."""
    return cast(TextIO, _Escaping()) if sys.stdout.isatty() else sys.stdout


class _Escaping:
    """Writes text to standard output, escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


class LogHandler(logging.Handler):
    """Prints the library's warnings like errors: escaped, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        error(f"warning: {one_line(record.getMessage())}")
