"""Do a share of a queue's tasks on this machine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.executors.environment import check_environment
from jprep.engine.executors.local import Local, WorkerDiedError
from jprep.engine.executors.worker import run_task
from jprep.engine.queue.failures import Failure, read_failures, record_failure
from jprep.engine.queue.manifest import MANIFEST
from jprep.engine.queue.reader import QueueReader
from jprep.engine.runner import RECEIPTS, TaskRunner, finished_tasks
from jprep.engine.stage import Task
from jprep.errors import ConfigError, Interrupted, JprepError, MachineError
from jprep.io.inputs.paths import is_local
from jprep.io.shared.ownership import ownership_files
from jprep.io.shared.workers import WORKERS, registered_worker

_IN_SUCCESSION = 5  # failures without a success between them, after which the rest of a share is left


class ShareResult(msgspec.Struct):
    """What became of a share.

    Attributes:
        stage: name of the stage.
        done: number of finished tasks, those of earlier runs included.
        failed: the failures.
        left: number of tasks that were not tried.
        interrupted: whether it was told to stop.
        closed: whether the queue was closed meanwhile: its tasks are done, or another queue has replaced it.
    """

    stage: str
    done: int = 0
    failed: list[Failure] = []
    left: int = 0
    interrupted: bool = False
    closed: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing of the share is left to do."""
        return self.closed or not (self.failed or self.left)


class QueuedRunner(TaskRunner, frozen=True, kw_only=True):
    """Runs a task of a queue unless it is done. A failure is recorded and returned: other tasks continue.

    Attributes:
        queue: the folder of the queue.
        tasks_file: its file of tasks, whose name has the queue's id.
        missing_folder: the directory in which relative paths of inputs begin, if this machine does not have it.
    """

    queue: Path
    tasks_file: str
    missing_folder: str = ""

    def __call__(self, task: Task) -> Any:
        """Return the task's receipt, or its failure."""
        answer = run_task(self._run_unless_done, task)
        return self.fail(task.id, answer) if isinstance(answer, JprepError) else answer

    def _run_unless_done(self, task: Task) -> Any:
        return self.done(task) or super().__call__(task)

    def fail(self, task: str, error: JprepError) -> Failure:
        """Record a failure; in a closed queue nothing is recorded, because files that the task reads may be gone."""
        if self.missing_folder and _names_missing_file(error):
            error = _without_folder(error, self.missing_folder)
        if self.is_open():
            return record_failure(self.queue, task, error)
        return Failure(task, error.what, error.where, error.fix, error.exit_code)

    def is_open(self) -> bool:
        """Return whether the queue is still open."""
        return (self.queue / MANIFEST).exists() and (self.queue / self.tasks_file).exists()


class Share:
    """A share of a queue: every chunk whose number, divided by `of`, leaves `index`.

    Args:
        reader: the queue.
        index: number of the share, from 0.
        of: number of shares.
        workers: number of processes.
        stopping: returns whether to stop: then running tasks are finished.
    """

    def __init__(self, reader: QueueReader, index: int, of: int, workers: int, stopping: Callable[[], bool]) -> None:
        self._reader, self._index, self._of, self._workers = reader, index, of, workers
        self._stopping = stopping
        self._result = ShareResult(reader.manifest.stage)
        self._in_succession = 0
        self._begun: dict[str, Task] = {}

    def run(self) -> ShareResult:
        """Do the tasks that are not done.

        Raises:
            DamagedError: the queue is damaged.
            MachineError: it cannot be read, or this machine has other versions of libraries.
        """
        check_environment(self._reader.manifest.environment)
        with registered_worker(self._reader.folder.parent.parent / WORKERS):
            return self._run_registered()

    def _run_registered(self) -> ShareResult:
        runner, result = self._runner(), self._result
        tasks = self._reader.tasks(self._index, self._of)
        try:
            with closing(Local(self._workers, self._must_stop)) as executor:
                self._run(executor, runner, tasks)
        except JprepError:
            if runner.is_open():
                raise
        finally:
            runner.stage.close()
        if self._in_succession >= _IN_SUCCESSION:
            self._record_left(runner)
        result.closed = not runner.is_open()
        result.interrupted = self._stopping()
        result.left = self._size() - result.done - len(result.failed)
        return result

    def _record_left(self, runner: QueuedRunner) -> None:
        """Record the tasks that are left as failed, for the command that waits for them."""
        error = JprepError(f"not tried: {_IN_SUCCESSION} tasks in succession failed before it", fix="see their errors")
        for name in missing_tasks(self._reader, self._index, self._of):
            runner.fail(name, error)

    def _runner(self) -> QueuedRunner:
        plain = self._reader.runner()
        fields = {name: getattr(plain, name) for name in plain.__struct_fields__} | {"held": ownership_files()}
        manifest = self._reader.manifest
        missing = "" if Path(manifest.folder).is_dir() else manifest.folder
        return QueuedRunner(**fields, queue=self._reader.folder, tasks_file=manifest.tasks, missing_folder=missing)

    def _run(self, executor: Local, runner: QueuedRunner, tasks: Iterator[Task]) -> None:
        """Run the tasks. When one has killed its worker twice, continue with those that ran beside it."""
        while True:
            try:
                for task, answer in executor.map(runner, self._watched(runner, tasks)):
                    self._begun.pop(task.id)
                    self._count(answer)
                return
            except Interrupted:
                return
            except WorkerDiedError as error:
                self._begun.pop(error.task)
                self._count(runner.fail(error.task, error))
                again = list(self._begun.values())
                tasks = itertools.chain(again, tasks)

    def _watched(self, runner: QueuedRunner, tasks: Iterator[Task]) -> Iterator[Task]:
        """Yield tasks while the queue is open; remember them until they are done."""
        for task in tasks:
            if not runner.is_open():
                return
            self._begun[task.id] = task
            yield task

    def _count(self, answer: Any) -> None:
        if isinstance(answer, Failure):
            self._result.failed.append(answer)
            self._in_succession += 1
        else:
            self._result.done += 1
            self._in_succession = 0

    def _must_stop(self) -> bool:
        return self._stopping() or self._in_succession >= _IN_SUCCESSION

    def _size(self) -> int:
        return sum(chunk.tasks for chunk in self._reader.manifest.chunks[self._index :: self._of])


def _names_missing_file(error: JprepError) -> bool:
    """Return whether an error is about a relative path at which nothing is; other errors have other causes."""
    path = error.where
    if type(error) is not ConfigError or not path or not is_local(path) or path.startswith("/"):
        return False
    return not os.path.lexists(path)


def _without_folder(error: JprepError, folder: str) -> MachineError:
    """Return the error for a relative path on a machine without the folder in which it begins: others may have it."""
    what = f"{error.what}, and this machine has no {folder}, in which relative paths begin"
    return MachineError(what, where=error.where, fix="share this directory, or give the inputs as absolute paths")


def missing_tasks(reader: QueueReader, index: int, of: int) -> list[str]:
    """Return the ids of the tasks of a share that have neither a receipt nor a record of a failure.

    Args:
        reader: the queue.
        index: number of the share, from 0.
        of: number of shares.

    Raises:
        DamagedError: a file of the queue is damaged.
        MachineError: it cannot be read.
    """
    known = finished_tasks(reader.folder.parent / RECEIPTS) | read_failures(reader.folder).keys()
    return [task.id for task in reader.tasks(index, of) if task.id not in known]
