"""Runs tasks on this machine, in processes of its own."""

from __future__ import annotations

import contextlib
import itertools
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jprep.engine.run import Job
from jprep.engine.stage import Receipt, Task
from jprep.engine.worker import receive, send
from jprep.errors import Interrupted, JprepError

_ATTEMPTS = 2  # a task whose worker was killed gets one more chance: often its neighbour had eaten the memory


class Local:
    """The executor `local`.

    Args:
        workers: processes; one works without a process of its own.
        stopping: asked before each new task; once it says yes, tasks under way are committed and no new one begins.
    """

    def __init__(self, workers: int = 1, stopping: Callable[[], bool] = lambda: False) -> None:
        self._workers, self._stopping = workers, stopping

    def map(self, job: Job, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run the tasks; the first failure ends the run once the tasks under way are committed.

        Raises:
            JprepError: a task's own error, or a worker died twice on the same task.
            Interrupted: `stopping` said so.
        """
        if self._workers == 1:
            return self._alone(job, tasks)
        few, tasks = _at_most_one(tasks)
        return self._alone(job, tasks) if few else _Pool(job, tasks, self._workers, self._stopping).run()

    def _alone(self, job: Job, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for task in tasks:
            _go_on(self._stopping)
            yield task, job(task)
        _go_on(self._stopping)


def _at_most_one(tasks: Iterator[Task]) -> tuple[bool, Iterator[Task]]:
    """Whether there is work for one process only; and all the tasks, an error in their making in its place."""
    first: list[Task] = []
    try:
        for task in itertools.islice(tasks, 2):
            first.append(task)
    except JprepError as error:
        tasks = _raising(error)
    few = len(first) < 2
    return few, itertools.chain(_emptied(first), tasks)


def _emptied(tasks: list[Task]) -> Iterator[Task]:
    """The tasks, none of them held on to: each may carry megabytes."""
    while tasks:
        yield tasks.pop(0)


def _raising(error: JprepError) -> Iterator[Task]:
    raise error
    yield


def _go_on(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise Interrupted("stopped, as asked; what is done is kept")


class _Pool:
    """Some processes, a thread of ours beside each: it hands over one task at a time and waits for the answer."""

    def __init__(self, job: Job, tasks: Iterator[Task], size: int, stopping: Callable[[], bool]) -> None:
        self._job, self._tasks, self._stopping = job, tasks, stopping
        self._next = threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._failed = threading.Event()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(size)]

    def run(self) -> Iterator[tuple[Task, Receipt]]:
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
            _go_on(self._stopping)
        finally:
            self._failed.set()
            for process in list(self._processes):
                process.kill()

    def _serve(self) -> None:
        """One thread's life: a process, and task after task for it."""
        process = None
        try:
            while (task := self._take()) is not None:
                process = self._do(task, process)
        except BaseException as error:
            self._failed.set()
            self._answers.put(error)
        finally:
            if process:
                self._dismiss(process)
            self._answers.put(None)

    def _take(self) -> Task | None:
        with self._next:
            if self._failed.is_set() or self._stopping():
                return None
            return next(self._tasks, None)

    def _do(self, task: Task, process: subprocess.Popen[bytes] | None) -> subprocess.Popen[bytes] | None:
        for _ in range(_ATTEMPTS):
            process = process or self._hire()
            try:
                send(process.stdin, task)  # type: ignore[arg-type]
                answer = receive(process.stdout)  # type: ignore[arg-type]
            except (EOFError, BrokenPipeError):
                code = process.wait()
                self._processes.discard(process)
                process = None
                if self._failed.is_set():  # the run has ended, and killed it: nobody is to begin anew
                    return None
                continue
            if isinstance(answer, JprepError):
                self._failed.set()
                self._answers.put(answer)
            else:
                self._answers.put((task, answer))
            return process
        fix = "most often memory ran out: run again with fewer --workers"
        raise JprepError(f"a worker died twice ({_death(code)})", where=f"task {task.id}", fix=fix)

    def _hire(self) -> subprocess.Popen[bytes]:
        # Inherited descriptors keep the directory's lock held for as long as any worker lives.
        command = [sys.executable, "-m", "jprep.engine.worker"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        self._processes.add(process)
        with contextlib.suppress(BrokenPipeError):  # it died at once, and the first task will find it dead
            send(process.stdin, self._job)  # type: ignore[arg-type]
        return process

    def _dismiss(self, process: subprocess.Popen[bytes]) -> None:
        try:
            send(process.stdin, None)  # type: ignore[arg-type]
            process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        self._processes.discard(process)


def _death(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
