"""Ctrl-C: the first time finish what is under way, the second time stop at once."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import click

from jprep.errors import Interrupted


@contextlib.contextmanager
def graceful() -> Iterator[Callable[[], bool]]:
    """For the time of the block SIGINT and SIGTERM ask to stop; give a function that tells whether one came.

    Raises:
        Interrupted: with the command that goes on, once the block has let go.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        click.echo("\nfinishing what is under way; once more stops now", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    except (Interrupted, KeyboardInterrupt) as stop:
        raise Interrupted("stopped; what is done is kept", fix=f"this goes on:  {command()}") from stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def command(without: str | None = None) -> str:
    """This command as it was typed, but for an option and its value."""
    words = sys.argv[1:]
    while without in words:
        place = words.index(without)
        del words[place : place + 2]
    kept = [word for word in words if not word.startswith(f"{without}=")]
    return shlex.join([Path(sys.argv[0]).name, *kept])
