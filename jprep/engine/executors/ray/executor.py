"""Run tasks on a Ray cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec

from jprep.config import ConfigSection
from jprep.engine.executors.ray.connection import Connection
from jprep.engine.executors.ray.pool import WorkerPool
from jprep.engine.executors.ray.stage_run import StageRun
from jprep.engine.runner import TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import Interrupted
from jprep.libraries import import_library


class RayOptions(ConfigSection, frozen=True):
    """The options of the executor `ray`.

    Attributes:
        address: address of a cluster; `auto` for the one to which this machine belongs; "" for that of the variable
            `RAY_ADDRESS`, else a cluster on this machine, of `--workers` cores, that ends with the command.
        max_workers: largest number of worker processes; 0 for as many as the nodes have room for, new nodes included. A
            number larger than that makes a cluster that scales itself grow.
        cpus: cores that a worker reserves.
        memory: memory that a worker reserves, in GiB; 0 reserves none.
        attempts: how often a task is begun if its worker or node is lost.
        runtime_env: Ray's runtime environment of the workers, e.g. `{ env_vars = { HF_HOME = "/shared/hf" } }`.
    """

    address: str = ""
    max_workers: Annotated[int, msgspec.Meta(ge=0)] = 0
    cpus: Annotated[float, msgspec.Meta(gt=0)] = 1
    memory: Annotated[float, msgspec.Meta(ge=0)] = 0
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 5
    runtime_env: dict[str, Any] = {}


class Ray:
    """The executor `ray`.

    Args:
        workers: number of cores of a cluster on this machine; of no meaning for an existing cluster.
        stopping: called before each task; once it returns True, running tasks are finished and no new one begins.
        options: the options.

    Raises:
        MachineError: Ray is not installed.
    """

    Config = RayOptions

    def __init__(self, workers: int, stopping: Callable[[], bool], options: RayOptions) -> None:
        self._ray = import_library("ray", "the executor 'ray' needs Ray", "'jprep[ray]'")
        self._workers, self._stopping, self._options = workers, stopping, options
        self._connection: Connection | None = None
        self._pool: WorkerPool | None = None

    def map(self, runner: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run the tasks; after the first failure, running tasks are finished and no new one begins.

        Without any task, no cluster is started.

        Raises:
            JprepError: a task raised it, or its worker was lost too often.
            MachineError: the cluster cannot be reached, or a node does not fit.
            Interrupted: `stopping` returned True.
        """
        if not self._stopping() and (first := next(tasks, None)) is not None:
            run = StageRun(self._connected(), runner, itertools.chain([first], tasks), self._stopping)
            del first
            yield from run.results()
        if self._stopping():
            raise Interrupted("interrupted; finished work is kept")

    def close(self) -> None:
        """End the worker processes, and the cluster if this executor started it."""
        if self._pool:
            self._pool.close()
        if self._connection:
            self._connection.close()
        self._pool = self._connection = None

    def _connected(self) -> WorkerPool:
        if self._pool is None:
            self._connection = Connection(self._ray, self._options.address, self._workers * self._options.cpus)
            self._pool = WorkerPool(self._ray, self._options)
        return self._pool
