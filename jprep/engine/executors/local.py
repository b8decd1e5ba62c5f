"""Run tasks in processes on this machine."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jprep.engine.executors.worker import receive, run_task, send
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import Interrupted, JprepError

_ATTEMPTS = 2  # a task whose worker was killed is retried once: often another process had used the memory


class WorkerDiedError(JprepError):
    """A task killed its worker twice.

    Attributes:
        task: the task's id.
    """

    task = ""


class Local:
    """The executor `local`.

    Args:
        workers: number of processes; with one, tasks run in this process.
        stopping: called before each task; once it returns True, running tasks are finished and no new one begins.
    """

    def __init__(self, workers: int = 1, stopping: Callable[[], bool] = lambda: False) -> None:
        self._workers, self._stopping = workers, stopping
        self._idle: list[_Worker] = []

    def map(self, runner: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run the tasks; after the first failure, running tasks are finished and no new one begins.

        Raises:
            JprepError: a task raised it.
            WorkerDiedError: a task's worker died twice.
            Interrupted: `stopping` returned True.
        """
        if self._workers == 1:
            return self._in_process(runner, tasks)
        few, tasks = _take_first(tasks)
        if few:
            return self._in_process(runner, tasks)
        return _Run(runner, tasks, self._idle, self._workers, self._stopping).results()

    def _in_process(self, runner: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for task in tasks:
            _check_stopping(self._stopping)
            answer = run_task(runner, task)
            if isinstance(answer, JprepError):
                raise answer
            yield task, answer
        _check_stopping(self._stopping)

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._idle:  # they exit at the same time
            worker.ask_to_stop()
        while self._idle:
            self._idle.pop().stop()


def _take_first(tasks: Iterator[Task]) -> tuple[bool, Iterator[Task]]:
    """Return whether there is at most one task, and all tasks; an error in creating them is raised in its place."""
    first: list[Task] = []
    try:
        for task in itertools.islice(tasks, 2):
            first.append(task)
    except JprepError as error:
        tasks = _raising(error)
    few = len(first) < 2
    return few, itertools.chain(_consume(first), tasks)


def _consume(tasks: list[Task]) -> Iterator[Task]:
    """Yield the tasks without keeping references: each may have megabytes."""
    while tasks:
        yield tasks.pop(0)


def _raising(error: JprepError) -> Iterator[Task]:
    yield from ()
    raise error


def _check_stopping(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise Interrupted("interrupted; finished work is kept")


class _Worker:
    """A worker process, and the task runner that it has."""

    def __init__(self) -> None:
        # Inherited descriptors keep the directory locked while any worker lives. Without the variable, numpy would
        # start a thread per core for linear algebra that jprep does not use.
        command = [sys.executable, "-P", "-m", "jprep.engine.executors.worker"]
        environment = {"OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False, env=environment | os.environ
        )
        self._runner: TaskRunner | None = None

    def do(self, runner: TaskRunner, task: Task) -> Any:
        """Run a task; return its receipt or an error.

        Raises:
            EOFError, BrokenPipeError: the process is dead.
        """
        if runner is not self._runner:
            send(self._process.stdin, runner)  # type: ignore[arg-type]
            self._runner = runner
        send(self._process.stdin, task)  # type: ignore[arg-type]
        return receive(self._process.stdout)  # type: ignore[arg-type]

    def death(self) -> str:
        """Return how a dead process ended."""
        code = self._process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def ask_to_stop(self) -> None:
        """Ask the process to exit."""
        with contextlib.suppress(OSError):  # it is dead
            send(self._process.stdin, None)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Wait for the process to exit; kill it if it does not."""
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


class _Run:
    """Runs tasks on several workers, each with a thread that sends it a task and waits for the answer.

    Args:
        runner: runs a task.
        tasks: created as they are taken.
        idle: workers of earlier stages; they are reused, and returned here.
        size: number of workers.
        stopping: see `Local`.
    """

    def __init__(
        self, runner: TaskRunner, tasks: Iterator[Task], idle: list[_Worker], size: int, stopping: Callable[[], bool]
    ) -> None:
        self._runner, self._tasks, self._idle, self._stopping = runner, tasks, idle, stopping
        self._next = threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ended, self._abandoned = threading.Event(), threading.Event()
        self._busy: set[_Worker] = set()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(size)]

    def results(self) -> Iterator[tuple[Task, Receipt]]:
        """Yield each task with its receipt, as they finish."""
        for thread in self._threads:
            thread.start()
        errors = []
        try:
            for _ in self._threads:
                while (answer := self._answers.get()) is not None:
                    if isinstance(answer, BaseException):
                        errors.append(answer)
                    else:
                        yield answer
            if errors:
                raise errors[0]
            _check_stopping(self._stopping)
        finally:
            self._ended.set()
            self._abandoned.set()
            for worker in list(self._busy):
                worker.kill()

    def _serve(self) -> None:
        """Run tasks on one worker until there are none; replace the worker if it dies."""
        worker: _Worker | None = None
        try:
            while (task := self._take()) is not None:
                worker = self._do(task, worker)
        except BaseException as error:
            self._ended.set()
            self._answers.put(error)
        finally:
            if worker:
                self._busy.discard(worker)
                self._idle.append(worker)
            self._answers.put(None)

    def _take(self) -> Task | None:
        with self._next:
            if self._ended.is_set() or self._stopping():
                return None
            return next(self._tasks, None)

    def _do(self, task: Task, worker: _Worker | None) -> _Worker | None:
        death = ""
        for _ in range(_ATTEMPTS):
            worker = worker or self._get_worker()
            if self._abandoned.is_set():  # perhaps it started after the others were killed
                worker.kill()
                return None
            try:
                answer = worker.do(self._runner, task)
            except (EOFError, BrokenPipeError):
                death = worker.death()
                self._busy.discard(worker)
                worker = None
                if self._ended.is_set():  # the run has ended and killed it: do not retry
                    return None
                continue
            if isinstance(answer, JprepError):
                self._ended.set()
            self._answers.put(answer if isinstance(answer, JprepError) else (task, answer))
            return worker
        killed = death == f"signal {signal.SIGKILL.name}"
        fix = "it probably ran out of memory: run again with fewer --workers" if killed else "see its output above"
        error = WorkerDiedError(f"a worker died twice ({death})", where=f"task {task.id}", fix=fix)
        error.task = task.id
        raise error

    def _get_worker(self) -> _Worker:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker()
        self._busy.add(worker)
        return worker
