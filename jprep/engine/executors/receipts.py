"""Collect the receipts of tasks that run elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.queue.writer import QueuedTask
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import Interrupted
from jprep.io.os_errors import translate_read_errors
from jprep.io.verified_files import read_if_exists

_STEP = 0.2  # seconds between two looks at whether the user asked to stop
_FIRST_PAUSE = 0.2  # seconds


class PendingTasks:
    """Tasks without a receipt yet. Each look lists the directory once, however many tasks there are.

    Args:
        runner: runs the tasks.
        tasks: the tasks by id; those that have been collected are removed.

    Attributes:
        tasks: the tasks without a receipt.
    """

    def __init__(self, runner: TaskRunner, tasks: dict[str, QueuedTask]) -> None:
        self._runner, self.tasks = runner, tasks

    def collect(self) -> Iterator[tuple[Task, Receipt]]:
        """Yield the receipts that have come since the last look.

        Raises:
            MachineError: the directory or a receipt cannot be read.
        """
        for name in self._names():
            if name in self.tasks and (receipt := self._read(name)):
                yield self.tasks.pop(name).task(name), receipt

    def _names(self) -> list[str]:
        folder = self._runner.receipts
        with translate_read_errors(str(folder)), contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".json"))
        return []

    def _read(self, name: str) -> Receipt | None:
        """Return a receipt; a damaged one is deleted, and its task is done again."""
        path = self._runner.receipts / f"{name}.json"
        if (data := read_if_exists(path)) is None:  # it is being replaced, or not visible here yet
            return None
        try:
            receipt = decode_checksummed(data, Receipt)
        except ValueError:
            path.unlink(missing_ok=True)
            return None
        return receipt if (receipt.digest, receipt.fingerprint) == self._mark(name) else None

    def _mark(self, name: str) -> tuple[str, str]:
        return self.tasks[name].digest, self._runner.fingerprint


def until_stopped(tasks: Iterator[Task], stopping: Callable[[], bool]) -> Iterator[Task]:
    """Yield tasks as they are created, until the user asks to stop.

    Raises:
        Interrupted: the user asked to stop.
    """
    for task in tasks:
        if stopping():
            raise Interrupted("interrupted; finished work is kept")
        yield task


def growing_pauses(longest: float) -> Iterator[float]:
    """Yield the seconds before each look for something, longer and longer, up to a limit."""
    seconds = _FIRST_PAUSE
    while True:
        yield min(seconds, longest)
        seconds *= 2


def pause(seconds: float, stopping: Callable[[], bool]) -> None:
    """Wait; end early when the user asks to stop."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not stopping():
        time.sleep(min(_STEP, left))
