"""Run the tasks of one stage on the workers of a pool."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.engine.executors.environment import describe_environment
from jprep.engine.executors.ray.pool import WorkerPool
from jprep.engine.executors.ray.task_worker import Answer, Assignment
from jprep.engine.executors.shared_directory import confirm_probe, delete_probes
from jprep.engine.runner import DRIVER, TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import JprepError, MachineError
from jprep.io.atomic import temporary_name
from jprep.io.os_errors import write_error
from jprep.io.shared.ownership import OwnershipFile

_log = logging.getLogger(__name__)

_PAUSE = 0.5  # seconds between two looks at whether the user asked to stop
_RECOUNT = 5.0  # seconds between two counts of the cluster's nodes
_WAIT = 60.0  # seconds without a worker after which, and between which, a warning is logged
_MAX_FAILED_STARTS = 20  # workers in a row that were lost before their first task
_MAX_REASON = 300  # characters of a reason that a message shows


class _Attempt(NamedTuple):
    task: Task
    number: int


class StageRun:
    """Gives each ready worker one task at a time; tasks of lost workers are given to others.

    Tasks are created as workers need them: never more exist than workers may.

    Args:
        pool: the workers.
        runner: runs a task.
        tasks: created as they are taken.
        stopping: returns whether the user asked to stop.
    """

    def __init__(
        self, pool: WorkerPool, runner: TaskRunner, tasks: Iterator[Task], stopping: Callable[[], bool]
    ) -> None:
        self._pool, self._ray, self._tasks, self._stopping = pool, pool.ray, tasks, stopping
        here = Path.cwd()
        token = temporary_name(here / runner.receipts.parent / DRIVER)
        self._runner = _bound(runner, here, token)
        self._pickled_runner = self._ray.put(pickle.dumps(self._runner, protocol=5))
        self._assignment = Assignment(here, token, os.urandom(16).hex(), describe_environment())
        self._waiting: deque[_Attempt] = deque()
        self._starting: dict[Any, tuple[Any, bool]] = {}  # worker, and whether an earlier stage left it
        self._ready: list[Any] = []
        self._running: dict[Any, tuple[_Attempt, Any]] = {}
        self._errors: list[JprepError] = []
        self._ended, self._failed_starts = False, 0
        self._size, self._counted = 0, -_RECOUNT
        self._active = time.monotonic()

    def results(self) -> Iterator[tuple[Task, Receipt]]:
        """Yield each task with its receipt, as they finish.

        Raises:
            JprepError: the first error, once running tasks are finished.
        """
        self._pool.check_room()
        self._write_token()
        try:
            while self._unfinished():
                more = self._create_task()
                self._start_workers()
                self._assign()
                for call in self._finished_calls(0.0 if more else _PAUSE):
                    yield from self._finish_call(call)
            if self._errors:
                raise self._errors[0]
        finally:
            self._dismiss()

    def _unfinished(self) -> bool:
        if self._errors or self._stopping():
            self._ended = True
            self._waiting.clear()
        return bool(self._running or self._waiting or not self._ended)

    def _create_task(self) -> bool:
        """Take the next task, if a worker may exist for it; return whether there was one."""
        if self._ended or len(self._running) + len(self._waiting) >= self._limit():
            return False
        try:
            task = next(self._tasks, None)
        except JprepError as error:
            self._errors.append(error)
            return False
        if task is None:
            self._ended = True
            return False
        self._waiting.append(_Attempt(task, 1))
        return True

    def _limit(self) -> int:
        """Return how many workers may exist; nodes that join and leave change it. At least one, to wait for a node."""
        if time.monotonic() - self._counted >= _RECOUNT:
            self._size, self._counted = max(1, self._pool.size()), time.monotonic()
        return self._size

    def _start_workers(self) -> None:
        """Prepare workers for the tasks that wait, and for no more."""
        needed = min(self._limit(), len(self._running) + len(self._waiting))
        while len(self._running) + len(self._ready) + len(self._starting) < needed:
            kept, worker = bool(self._pool.idle), self._pool.take()
            self._starting[worker.begin.remote(self._pickled_runner, self._assignment)] = worker, kept

    def _assign(self) -> None:
        while self._ready and self._waiting:
            worker, attempt = self._ready.pop(), self._waiting.popleft()
            self._running[worker.run.remote(pickle.dumps(attempt.task, protocol=5))] = attempt, worker

    def _finished_calls(self, seconds: float) -> list[Any]:
        """Wait for calls that finish; return them."""
        calls = [*self._running, *self._starting]
        if not calls:  # no node has room, and no worker is left
            time.sleep(seconds)
            return []
        finished: list[Any] = self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]
        if not finished and seconds:
            finished = self._ray.wait(calls, timeout=seconds)[0]
        self._warn_of_waiting(bool(finished))
        return finished

    def _warn_of_waiting(self, active: bool) -> None:
        """Log a warning now and then while tasks wait and no worker runs."""
        now = time.monotonic()
        if active or self._running or not self._waiting:
            self._active = now
        elif now - self._active > _WAIT:
            self._active = now
            _log.warning("still waiting for a worker of the Ray cluster: %s", self._pool.free_cpus())

    def _finish_call(self, call: Any) -> Iterator[tuple[Task, Receipt]]:
        if call in self._starting:
            self._finish_start(call, *self._starting.pop(call))
            return
        attempt, worker = self._running.pop(call)
        try:
            answer = self._answer(call)
        except self._ray.exceptions.RayError as error:
            self._pool.discard(worker)
            yield from self._retry_lost(attempt, error)
            return
        self._ready.append(worker)
        if not isinstance(answer.value, JprepError):
            yield attempt.task, answer.value
        elif receipt := self._finished_elsewhere(attempt):
            yield attempt.task, receipt
        else:
            self._errors.append(_on_node(answer.value, answer.node))

    def _finish_start(self, call: Any, worker: Any, kept: bool) -> None:
        try:
            answer = self._answer(call)
            if isinstance(answer.value, JprepError):
                raise answer.value
            confirm_probe(answer.value, answer.node)
        except JprepError as error:
            self._pool.discard(worker)
            self._errors.append(error)
        except self._ray.exceptions.RayError as error:
            self._pool.discard(worker)
            self._retry_start(error, kept)
        else:
            self._failed_starts = 0
            self._ready.append(worker)

    def _retry_start(self, error: Exception, kept: bool) -> None:
        """Let another worker be started, unless that is hopeless. One that was lost between stages is no such sign."""
        self._failed_starts += not kept
        broken = isinstance(error, self._ray.exceptions.RayTaskError) or getattr(error, "actor_init_failed", False)
        if broken or self._failed_starts >= _MAX_FAILED_STARTS:
            fix = "install the same versions of jprep and its libraries on all nodes; Ray's log has more"
            where = getattr(error, "ip", "") or "a node of the Ray cluster"
            self._errors.append(MachineError(f"no worker could be started: {_reason(error)}", where=where, fix=fix))
        else:
            _log.warning("a worker was lost before its first task, another one is started: %s", _reason(error))

    def _retry_lost(self, attempt: _Attempt, error: Exception) -> Iterator[tuple[Task, Receipt]]:
        """Repeat a task whose worker is lost, unless it had finished: then yield its receipt."""
        task, number = attempt
        if receipt := self._runner.done(task):
            yield task, receipt
        elif isinstance(error, self._ray.exceptions.RayTaskError):
            self._errors.append(JprepError(_reason(error), where=f"task {task.id}"))
        elif number >= self._pool.options.attempts:
            what = f"the worker of a task was lost {number} times; the last time: {_reason(error)}"
            fix = "if it ran out of memory, give workers more with `memory`; if nodes come and go, raise `attempts`"
            self._errors.append(JprepError(what, where=f"task {task.id}", fix=fix))
        else:
            _log.warning("the worker of task %s was lost, the task is begun again: %s", task.id, _reason(error))
            self._waiting.appendleft(_Attempt(task, number + 1))

    def _finished_elsewhere(self, attempt: _Attempt) -> Receipt | None:
        """Return the receipt of a repeated task that failed while its first worker, believed lost, finished it."""
        return self._runner.done(attempt.task) if attempt.number > 1 else None

    def _answer(self, call: Any) -> Answer:
        answer: Answer = pickle.loads(self._ray.get(call))
        for name, message in answer.warnings:
            logging.getLogger(name).warning("%s", message)
        return answer

    def _write_token(self) -> None:
        token = self._assignment.token
        try:
            token.write_text(self._assignment.content, encoding="utf-8")
        except OSError as error:
            raise write_error(error, token) from error

    def _dismiss(self) -> None:
        """Keep workers that are ready for the next stage; kill those that are not."""
        self._assignment.token.unlink(missing_ok=True)
        starting, running = (each[0] for each in self._starting.values()), (each[1] for each in self._running.values())
        for worker in (*starting, *running):
            self._pool.discard(worker)
        delete_probes(self._assignment.token)
        self._pool.idle.extend(self._ready)
        self._starting, self._running, self._ready = {}, {}, []


def _bound(runner: TaskRunner, here: Path, token: Path) -> TaskRunner:
    """Return a task runner for workers of this stage's run only: without the token, they commit nothing.

    Ray's workers do not inherit the lock of a command. The token is deleted at the end of the stage; if the command is
    killed, the next one deletes it when it claims the directory, and what a forgotten worker does then has no effect.
    """
    held = (*runner.held, OwnershipFile(token.parent, token.name, command=True))
    return msgspec.structs.replace(runner, root=here / runner.root, receipts=here / runner.receipts, held=held)


def _on_node(error: JprepError, node: str) -> JprepError:
    error.where = f"{error.where}, on {node}" if error.where else node
    return error


def _reason(error: Exception) -> str:
    """Return the line of Ray's long messages that says most: the last one that begins a sentence."""
    lines = [line for line in str(error).splitlines() if line and not line[0].isspace()]
    return (lines or [type(error).__name__])[-1][:_MAX_REASON]
