"""A Ray cluster of several nodes on this machine, whose nodes can be killed."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

NODES = 3
"""Nodes with one core each, besides the head, which runs no tasks."""

_MEMORY = 100 << 20
_WAITS, _ATTEMPTS = 4, 5
# A killed node is believed dead after two seconds instead of fifteen. On a busy machine it may answer late.
_CONFIG = {
    "health_check_initial_delay_ms": 5000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
# Read when Ray is imported. Without the first, another address takes the place of 127.0.0.1.
os.environ.update({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"})


class RayCluster:
    """A head and `NODES` nodes, each with processes of its own.

    Args:
        nodes: number of nodes besides the head.

    Attributes:
        address: the cluster's address.
    """

    def __init__(self, nodes: int = NODES) -> None:
        from ray.cluster_utils import Cluster

        _wait_longer()
        self._cluster: Any = Cluster(shutdown_at_exit=True)
        self._start(num_cpus=0, include_dashboard=False, _system_config=_CONFIG)
        self._cluster._shutdown_at_exit = False  # a thread cannot set handlers of signals; nodes end with the head
        self._starter = ThreadPoolExecutor(1)  # starting several nodes at once takes longer
        self._nodes: list[Future[Any]] = []
        for _ in range(nodes):
            self.add_node()
        for node in self._nodes:
            node.result()
        self.address: str = self._cluster.address

    def add_node(self) -> None:
        """Start a node; it joins in some seconds."""
        self._nodes.append(self._starter.submit(self._start, num_cpus=1))

    def kill_node_of(self, worker: int) -> None:
        """Kill the node of a worker process, and its workers, by SIGKILL.

        Raises:
            ProcessLookupError: there is no such process, or no such node.
        """
        parent = _parent(worker)
        started = [each for each in self._nodes if each.done() and not each.exception()]
        node = next((each for each in started if parent in _processes(each.result())), None)
        if node is None:
            raise ProcessLookupError(worker)
        self._nodes.remove(node)
        self._kill(node.result())

    def cpu_seconds(self) -> float:
        """Return the CPU time of the processes that Ray has for the head and its nodes, without the workers."""
        nodes = [self._cluster.head_node, *(each.result() for each in self._nodes)]
        return sum(map(_cpu_seconds, {number for node in nodes for number in _processes(node)}))

    def close(self) -> None:
        self._starter.shutdown(cancel_futures=True)
        self._cluster.shutdown()

    def _kill(self, node: Any) -> None:
        workers = [child for process in _processes(node) for child in _children(process)]
        for process in [*_processes(node), *workers]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def _start(self, **options: Any) -> Any:
        """Start a node. One whose own processes are late does not start at all."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._cluster.add_node(
                    wait=False, object_store_memory=_MEMORY, include_log_monitor=False, **options
                )
            except Exception:
                if attempt == _ATTEMPTS - 1:
                    raise
        return None


def _wait_longer() -> None:
    """Let Ray wait two minutes until a node has started, instead of 30 seconds: a busy machine needs them."""
    services: Any = import_module("ray._private.services")
    get_node = services.get_node  # waits 30 seconds
    if get_node.__name__ == "get_patiently":
        return

    def get_patiently(*arguments: Any) -> Any:
        for _ in range(_WAITS - 1):
            with suppress(RuntimeError):
                return get_node(*arguments)
        return get_node(*arguments)

    services.get_node = get_patiently


def _processes(node: Any) -> list[int]:
    return [info.process.pid for infos in node.all_processes.values() for info in infos]


def _parent(process: int) -> int:
    """Return the parent of a process, or 0."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [number for number in numbers if _parent(number) == process]
