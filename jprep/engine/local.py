"""Runs tasks on this machine, in processes of its own."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.engine.worker import receive, run_task, send
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
        self._idle: list[_Worker] = []

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run the tasks; the first failure ends the run once the tasks under way are committed.

        Raises:
            JprepError: a task's own error, or a worker died twice on the same task.
            Interrupted: `stopping` said so.
        """
        if self._workers == 1:
            return self._alone(job, tasks)
        few, tasks = _at_most_one(tasks)
        if few:
            return self._alone(job, tasks)
        return _Run(job, tasks, self._idle, self._workers, self._stopping).results()

    def _alone(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for task in tasks:
            _go_on(self._stopping)
            answer = run_task(job, task)
            if isinstance(answer, JprepError):
                raise answer
            yield task, answer
        _go_on(self._stopping)

    def close(self) -> None:
        """Send the workers home."""
        while self._idle:
            self._idle.pop().dismiss()


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
    yield from ()
    raise error


def _go_on(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise Interrupted("stopped, as asked; what is done is kept")


class _Worker:
    """A worker process, and what it was last told to do."""

    def __init__(self) -> None:
        # Inherited descriptors keep the directory's lock held for as long as any worker lives. numpy would start a
        # thread a core for linear algebra that nothing here does.
        command, environment = [sys.executable, "-P", "-m", "jprep.engine.worker"], {"OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False, env=environment | os.environ
        )
        self._job: TaskRunner | None = None

    def do(self, job: TaskRunner, task: Task) -> Any:
        """Have a task done; the answer is a receipt or an error.

        Raises:
            EOFError, BrokenPipeError: the process is dead.
        """
        if job is not self._job:
            send(self._process.stdin, job)  # type: ignore[arg-type]
            self._job = job
        send(self._process.stdin, task)  # type: ignore[arg-type]
        return receive(self._process.stdout)  # type: ignore[arg-type]

    def death(self) -> str:
        """What a dead process died of."""
        code = self._process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def dismiss(self) -> None:
        """Ask it to leave, and see it leave."""
        try:
            send(self._process.stdin, None)  # type: ignore[arg-type]
            self._process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self.kill()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()


class _Run:
    """One job's tasks on some workers, a thread of ours beside each: it hands over one task and waits for the answer.

    Args:
        job: what is done with each task.
        tasks: made as they are taken.
        idle: workers of earlier jobs; they are used, and come back here.
        size: how many workers at once.
        stopping: see `Local`.
    """

    def __init__(
        self, job: TaskRunner, tasks: Iterator[Task], idle: list[_Worker], size: int, stopping: Callable[[], bool]
    ) -> None:
        self._job, self._tasks, self._idle, self._stopping = job, tasks, idle, stopping
        self._next = threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._busy: set[_Worker] = set()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(size)]

    def results(self) -> Iterator[tuple[Task, Receipt]]:
        """Each task with its receipt, as they are committed."""
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
            self._ended.set()
            for worker in list(self._busy):
                worker.kill()

    def _serve(self) -> None:
        """One thread's life: task after task for one worker, and another worker where one died."""
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
            worker = worker or self._hire()
            try:
                answer = worker.do(self._job, task)
            except (EOFError, BrokenPipeError):
                death = worker.death()
                self._busy.discard(worker)
                worker = None
                if self._ended.is_set():  # the run has ended, and killed it: nobody is to begin anew
                    return None
                continue
            if isinstance(answer, JprepError):
                self._ended.set()
            self._answers.put(answer if isinstance(answer, JprepError) else (task, answer))
            return worker
        killed = death == f"signal {signal.SIGKILL.name}"
        fix = "most often memory ran out: run again with fewer --workers" if killed else "see what it wrote above"
        raise JprepError(f"a worker died twice ({death})", where=f"task {task.id}", fix=fix)

    def _hire(self) -> _Worker:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker()
        self._busy.add(worker)
        return worker
