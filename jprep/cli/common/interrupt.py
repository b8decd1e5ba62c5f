"""Handle Ctrl-C: the first one finishes the tasks that are running, the second one stops at once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from jprep.cli.common.output import note
from jprep.cli.common.shell_command import current_command
from jprep.errors import Interrupted


@contextlib.contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, so that temporary files are deleted.

    Raises:
        KeyboardInterrupt: SIGTERM was received.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def graceful_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT and SIGTERM into a request to stop; give a function that returns whether there was one.

    After an interruption both are ignored, since the command only reports it: another Ctrl-C would cut the report off.

    Raises:
        Interrupted: after the block, with the command that resumes.
    """
    requested = False

    def request(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        note("\nfinishing the tasks that are running here; interrupt again to stop at once")

    handlers: dict[int, Any] = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: requested
    except (Interrupted, KeyboardInterrupt) as stop:
        handlers = dict.fromkeys(handlers, signal.SIG_IGN)
        _set_handlers(handlers)
        if isinstance(stop, Interrupted) and stop.fix:  # an executor whose tasks run elsewhere
            raise
        raise Interrupted("interrupted; finished work is kept", fix=f"to resume:  {current_command()}") from stop
    finally:
        _set_handlers(handlers)


def _set_handlers(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
