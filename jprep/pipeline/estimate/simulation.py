"""Simulate the tasks of a stage on any number of workers, which share a file system and a main process."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup

_MOST_TASKS = 20_000  # simulated: more are bundled
_LONGEST = 0.7  # of a stage's time, above which its longest task limits it

WORKERS, MAIN, DISK, FILES = "processors", "main process", "disk", "file operations"
LONGEST, NO_WORK = "longest task", "nothing"


class Cluster(NamedTuple):
    """What runs the tasks. All workers share one file system, and one main process hands out the tasks.

    Attributes:
        workers: number of processes.
        read: bytes a second that all of them read together.
        write: bytes a second that all of them write together.
        files: files a second that all of them commit together.
        dispatch: seconds of the main process for a task, besides creating it.
        start: seconds until the first task of a stage can begin: what a scheduler waits.
        cores: processors; more workers than processors share them.
    """

    workers: int
    read: float = math.inf
    write: float = math.inf
    files: float = math.inf
    dispatch: float = 0.0
    start: float = 0.0
    cores: float = math.inf


class StageTime(NamedTuple):
    """How long a stage takes.

    Attributes:
        wall: seconds from its begin to its end.
        busy: share of that time that each resource is in use.
        limit: the resource that is in use most, or that its longest task alone takes most of the time.
    """

    wall: float
    busy: dict[str, float]
    limit: str


class _Task(NamedTuple):
    """What one task needs of each resource, in seconds."""

    main: float
    read: float
    cpu: float
    write: float
    commit: float

    @property
    def alone(self) -> float:
        """Seconds of the task without other ones."""
        return sum(self)


def simulate(load: StageLoad, cluster: Cluster) -> StageTime:
    """Simulate a stage: each task waits for the main process, reads, computes, writes and commits its files.

    Disk, file operations and main process serve one request after another, in the order of their arrival. Nothing
    else slows tasks down: no failures, no network, and every processor is as fast as the one that was measured.

    Args:
        load: the work.
        cluster: what runs it.
    """
    tasks = list(_tasks(load, cluster))
    slow = max(1.0, min(cluster.workers, len(tasks)) / cluster.cores)
    tasks = [task._replace(cpu=slow * task.cpu) for task in tasks]
    begin = load.serial + (cluster.start + slow * load.startup if tasks else 0.0)
    wall = _Simulation(tasks, cluster.workers, begin).run()
    return StageTime(wall, busy := _busy(tasks, wall, cluster, slow, load), _limit(tasks, wall, busy))


def _tasks(load: StageLoad, cluster: Cluster) -> Iterator[_Task]:
    bundle = max(1, math.ceil(load.tasks / _MOST_TASKS))
    for group in load.groups:
        for size in _bundles(group.number, bundle):
            yield _needs(group, cluster, size)


def _bundles(count: int, size: int) -> Iterable[int]:
    whole, rest = divmod(count, size)
    return [size] * whole + ([rest] if rest else [])


def _needs(group: TaskGroup, cluster: Cluster, count: int) -> _Task:
    return _Task(
        count * (group.main + cluster.dispatch),
        count * group.read / cluster.read,
        count * group.cpu,
        count * group.written / cluster.write,
        count * (group.files + 1) / cluster.files,  # and its receipt
    )


class _Simulation:
    """Follows each worker through its tasks; events happen in the order of their time."""

    def __init__(self, tasks: list[_Task], workers: int, begin: float) -> None:
        self._tasks, self._next, self._end = tasks, 0, begin
        self._free = {"main": begin, "disk": begin, "files": begin}
        self._events = [(begin, worker, 0, -1) for worker in range(min(workers, len(tasks)))]

    def run(self) -> float:
        """Return the time of the last event."""
        phases = (self._take, self._read, self._compute, self._write, self._commit)
        heapq.heapify(self._events)
        while self._events:
            now, worker, phase, task = heapq.heappop(self._events)
            self._end = max(self._end, now)
            if phase == 0:
                if self._next == len(self._tasks):
                    continue
                task, self._next = self._next, self._next + 1
            then = phases[phase](now, self._tasks[task])
            heapq.heappush(self._events, (then, worker, (phase + 1) % len(phases), task))
        return self._end

    def _serve(self, resource: str, now: float, seconds: float) -> float:
        """Return when a request is served, after those that came before it."""
        if not seconds:
            return now
        self._free[resource] = max(now, self._free[resource]) + seconds
        return self._free[resource]

    def _take(self, now: float, task: _Task) -> float:
        return self._serve("main", now, task.main)

    def _read(self, now: float, task: _Task) -> float:
        return self._serve("disk", now, task.read)

    def _compute(self, now: float, task: _Task) -> float:
        return now + task.cpu

    def _write(self, now: float, task: _Task) -> float:
        return self._serve("disk", now, task.write)

    def _commit(self, now: float, task: _Task) -> float:
        return self._serve("files", now, task.commit)


def _busy(tasks: list[_Task], wall: float, cluster: Cluster, slow: float, load: StageLoad) -> dict[str, float]:
    if not wall:
        return {}
    processors = min(cluster.workers, cluster.cores)
    return {
        WORKERS: sum(task.cpu for task in tasks) / slow / processors / wall,
        MAIN: (load.serial + sum(task.main for task in tasks)) / wall,
        DISK: sum(task.read + task.write for task in tasks) / wall,
        FILES: sum(task.commit for task in tasks) / wall,
    }


def _limit(tasks: list[_Task], wall: float, busy: dict[str, float]) -> str:
    if not wall:
        return NO_WORK
    longest = max((task.alone for task in tasks), default=0.0)
    most = max(busy, key=lambda name: busy[name])
    return LONGEST if longest > _LONGEST * wall and busy[most] < _LONGEST else most


class Scaling(msgspec.Struct, frozen=True):
    """How long all stages take with a number of workers.

    Attributes:
        workers: number of processes.
        wall: seconds of all stages, one after another.
        speedup: how many times as fast as one worker.
        processors: share of the processors' time that is used.
        limit: what limits the stages that take most of the time.
        share: the share of the time that these stages take.
    """

    workers: int
    wall: float
    speedup: float
    processors: float
    limit: str
    share: float


def scale(loads: list[StageLoad], clusters: list[Cluster]) -> list[Scaling]:
    """Simulate all stages with each of some numbers of workers.

    Args:
        loads: the stages.
        clusters: what runs them, for each number of workers.
    """
    alone = sum(simulate(load, clusters[0]._replace(workers=1)).wall for load in loads) if clusters else 0.0
    return [_scaling(loads, cluster, alone) for cluster in clusters]


def _scaling(loads: list[StageLoad], cluster: Cluster, alone: float) -> Scaling:
    times = [simulate(load, cluster) for load in loads]
    wall = sum(time.wall for time in times)
    used = sum(time.busy.get(WORKERS, 0.0) * time.wall for time in times)
    by_limit: dict[str, float] = {}
    for time in times:
        by_limit[time.limit] = by_limit.get(time.limit, 0.0) + time.wall
    limit = max(by_limit, key=lambda name: by_limit[name], default=NO_WORK)
    if not wall:
        return Scaling(cluster.workers, 0.0, 1.0, 0.0, NO_WORK, 0.0)
    return Scaling(cluster.workers, wall, alone / wall, used / wall, limit, by_limit[limit] / wall)
