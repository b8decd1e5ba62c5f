"""The worker processes on the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from jprep.engine.executors.ray.task_worker import TaskWorker
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.engine.executors.ray.executor import RayOptions

_GIB = 1 << 30
_TIMEOUT = 10.0  # seconds for workers to close what they have opened


class WorkerPool:
    """Starts workers, and keeps them between stages.

    Args:
        ray: the module, connected to a cluster.
        options: the options of the executor.

    Attributes:
        ray, options: the arguments.
        idle: workers that have nothing to do.
    """

    def __init__(self, ray: Any, options: RayOptions) -> None:
        self.ray, self.options = ray, options
        self.idle: list[Any] = []
        self._actor = ray.remote(TaskWorker).options(
            num_cpus=options.cpus,
            memory=int(options.memory * _GIB) or None,
            max_restarts=0,  # a new worker is started in the place of a lost one, with the stage's task runner
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            runtime_env=options.runtime_env or None,
        )

    def take(self) -> Any:
        """Return an idle worker, or a new one: Ray starts it once a node has room."""
        return self.idle.pop() if self.idle else self._actor.remote()

    def size(self) -> int:
        """Return how many workers may exist now."""
        return self.options.max_workers or self._room()

    def check_room(self) -> None:
        """Refuse workers that no node is large enough for.

        Raises:
            ConfigError: there is no such node.
        """
        if not self.size():
            memory = f" and {self.options.memory:g} GiB of memory" if self.options.memory else ""
            what = f"no node of the cluster has {self.options.cpus:g} cores{memory}, which a worker reserves"
            fix = "lower `cpus` or `memory`, or give `max_workers` if the cluster adds nodes on demand"
            raise ConfigError(what, where="[executor] for 'ray'", fix=fix)

    def free_cpus(self) -> str:
        """Return how many of the cluster's cores are free, in words."""
        free, total = self.ray.available_resources().get("CPU", 0), self.ray.cluster_resources().get("CPU", 0)
        return f"{free:g} of {total:g} cores are free"

    def discard(self, worker: Any) -> None:
        """Kill a worker, whether or not it lives."""
        with contextlib.suppress(Exception):
            self.ray.kill(worker)

    def close(self) -> None:
        """End all workers."""
        with contextlib.suppress(self.ray.exceptions.RayError):
            ended = [worker.end.remote() for worker in self.idle]
            if ended:
                self.ray.wait(ended, num_returns=len(ended), timeout=_TIMEOUT)
        while self.idle:
            self.discard(self.idle.pop())

    def _room(self) -> int:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(self._fitting(node) for node in nodes)

    def _fitting(self, resources: dict[str, float]) -> int:
        """Return how many workers a node of some resources holds."""
        fitting = resources.get("CPU", 0) / self.options.cpus
        if self.options.memory:
            fitting = min(fitting, resources.get("memory", 0) / (self.options.memory * _GIB))
        return int(fitting + 1e-6)
