"""Executors that write the queue of a stage and wait for the receipts."""

from __future__ import annotations

import contextlib
import itertools
import logging
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from jprep.config import ConfigSection
from jprep.engine.executors.receipts import PendingTasks, growing_pauses, pause, until_stopped
from jprep.engine.queue.failures import clear_failures, read_failures
from jprep.engine.queue.manifest import QUEUE, QueueManifest, close_queue, read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.writer import publish_queue, remove_other_files, write_queue
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import DamagedError, Interrupted, JprepError, MachineError
from jprep.plurals import counted

_log = logging.getLogger(__name__)

JPREP = ["-P", "-m", "jprep"]
"""The words after the interpreter that start jprep, whatever the working directory has."""


class Submitted(JprepError):  # noqa: N818 - not an error: the command did what it was asked for
    """The tasks are submitted, and the command ends without waiting for them."""

    exit_code = 0


class OpenQueue(msgspec.Struct, frozen=True):
    """The open queue of a stage.

    Attributes:
        manifest: its description.
        folder: its folder.
        pending: the tasks without a receipt.
        kept: whether it was open before this command.
    """

    manifest: QueueManifest
    folder: Path
    pending: PendingTasks
    kept: bool

    @property
    def output(self) -> Path:
        """The output directory that the stage belongs to."""
        return self.folder.parent.parent.parent


class QueueExecutor(ABC):
    """An executor whose tasks are done by `jprep work`.

    Args:
        stopping: returns whether the user asked to stop.
        poll: largest pause between two looks for receipts, in seconds.
    """

    def __init__(self, stopping: Callable[[], bool], poll: float) -> None:
        self._stopping, self._poll = stopping, poll
        self._command: list[str] = []
        self._announce: Callable[[str], None] = lambda _: None

    def attach(self, command: list[str], announce: Callable[[str], None]) -> None:
        """Receive what only a command line has.

        Args:
            command: the words of the command after `jprep`, to run it again from a job.
            announce: prints a message.
        """
        self._command, self._announce = command, announce

    def map(self, runner: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Write the tasks to a queue; yield the receipts as they come.

        Raises:
            Submitted: the tasks are submitted, and the executor does not wait.
            JprepError: tasks failed; the others are done.
            Interrupted: the user asked to stop. What runs elsewhere continues.
        """
        first = list(itertools.islice(tasks, 1))
        folder = runner.receipts.parent / QUEUE
        if not first:
            return self._nothing(folder)
        return self._results(runner, folder, itertools.chain(first, tasks))

    def _nothing(self, folder: Path) -> Iterator[tuple[Task, Receipt]]:
        self._end(folder)
        yield from ()

    def _results(self, runner: TaskRunner, folder: Path, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        queue = self._publish(runner, folder, tasks)
        try:
            yield from self._run(queue)
        except (Interrupted, KeyboardInterrupt) as stop:
            raise Interrupted("interrupted; what runs elsewhere continues", fix=self._advice(queue)) from stop
        self._end(folder)

    def close(self) -> None:  # noqa: B027 - part of the protocol
        """Do nothing: processes elsewhere end by themselves."""

    @abstractmethod
    def _run(self, queue: OpenQueue) -> Iterator[tuple[Task, Receipt]]:
        """Let the tasks be done; yield the receipts until none is missing."""

    @abstractmethod
    def _advice(self, queue: OpenQueue) -> str:
        """Return what to do after an interruption."""

    @abstractmethod
    def _keeps(self, folder: Path) -> bool:
        """Return whether processes may work on the queue that an earlier command has left."""

    def _end(self, folder: Path) -> None:
        """Close the queue of a finished stage."""
        close_queue(folder)

    def _publish(self, runner: TaskRunner, folder: Path, tasks: Iterator[Task]) -> OpenQueue:
        """Open a queue for the tasks, or keep the one that has them, if processes may work on it."""
        old = _existing(folder, runner) if self._keeps(folder) else None
        new = write_queue(folder, runner, until_stopped(tasks, self._stopping))
        chunks = _chunk_numbers(folder, old) if old else {}
        if old and new.tasks.keys() <= chunks.keys():
            remove_other_files(folder, old)
            kept = {name: msgspec.structs.replace(task, chunk=chunks[name]) for name, task in new.tasks.items()}
            return OpenQueue(old, folder, PendingTasks(runner, kept), kept=True)
        publish_queue(folder, new.manifest)
        return OpenQueue(new.manifest, folder, PendingTasks(runner, dict(new.tasks)), kept=False)

    def _pauses(self) -> Iterator[float]:
        """Yield the seconds before each look, longer and longer."""
        return growing_pauses(self._poll)

    def _wait(self, seconds: float) -> None:
        pause(seconds, self._stopping)
        if self._stopping():
            raise Interrupted("interrupted")


class QueueOptions(ConfigSection, frozen=True):
    """Options of the executor `queue`.

    Attributes:
        wait: whether the command waits for the receipts; otherwise it ends, and run again it continues.
        poll: largest pause between two looks for receipts, in seconds.
    """

    wait: bool = True
    poll: float = 5.0


class Queue(QueueExecutor):
    """The executor `queue`: processes that something else starts do the tasks.

    Args:
        workers: not used: each `jprep work` has its own.
        stopping: returns whether the user asked to stop.
        options: options of the recipe.
    """

    Config = QueueOptions

    def __init__(self, workers: int, stopping: Callable[[], bool], options: QueueOptions) -> None:
        super().__init__(stopping, options.poll)
        self._options = options

    def _keeps(self, folder: Path) -> bool:
        return not read_failures(folder)  # failed tasks are tried again in a new queue

    def _run(self, queue: OpenQueue) -> Iterator[tuple[Task, Receipt]]:
        clear_failures(queue.folder)
        count = len(queue.pending.tasks)
        waiting = f"{counted(count, 'task')} {'waits' if count == 1 else 'wait'} for `jprep work {queue.output}`"
        self._announce(f"{queue.manifest.stage}: {waiting}")
        if not self._options.wait:
            yield from queue.pending.collect()
            what = f"{counted(count, 'task')} {'is' if count == 1 else 'are'} in the queue"
            raise Submitted(what, where=str(queue.output), fix=self._advice(queue))
        for seconds in self._pauses():
            yield from queue.pending.collect()
            if not queue.pending.tasks:
                return
            self._refuse_if_all_failed(queue)
            self._wait(seconds)

    def _refuse_if_all_failed(self, queue: OpenQueue) -> None:
        failures = read_failures(queue.folder)
        failed = [failures[name] for name in sorted(queue.pending.tasks) if name in failures]
        if len(failed) == len(queue.pending.tasks):
            raise failed[0].error(len(failed) - 1)

    def _advice(self, queue: OpenQueue) -> str:
        work = f"jprep work {shlex.quote(str(queue.output))} --index I --of N"
        return f"`{work}` does one of N shares; then run this command again"


def _existing(folder: Path, runner: TaskRunner) -> QueueManifest | None:
    """Return the open queue of the same work."""
    try:
        found = read_queue(folder)
    except (DamagedError, MachineError) as error:  # a new queue takes its place
        _log.warning("%s: %s", error.where, error.what)
        return None
    return found if found and found.fingerprint == runner.fingerprint else None


def _chunk_numbers(folder: Path, queue: QueueManifest) -> dict[str, int]:
    """Return the number of each task's chunk; nothing if the queue is damaged."""
    reader = QueueReader(folder, queue)
    with contextlib.suppress(JprepError):
        return {
            task.id: number for number in range(len(queue.chunks)) for task in reader.tasks(number, len(queue.chunks))
        }
    return {}


def jprep_command(python: str, *words: str) -> list[str]:
    """Return the command that runs jprep in a job.

    Args:
        python: the interpreter; "" for that of this process.
        words: the words after `jprep`.
    """
    return [python or sys.executable, *JPREP, *words]
