"""Ctrl-C: the first time finish what is under way, the second time stop at once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from jprep.cli.common.output import note
from jprep.cli.common.shell_command import current_command
from jprep.errors import Interrupted


@contextlib.contextmanager
def graceful_interrupt() -> Iterator[Callable[[], bool]]:
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
        note("\nfinishing the work under way; a second interrupt stops now")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    except (Interrupted, KeyboardInterrupt) as stop:
        raise Interrupted("stopped; finished work is kept", fix=f"to resume:  {current_command()}") from stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
