"""What a task costs beside its work on a Ray cluster: empty tasks on two nodes of one core, on this machine.

CPU time of the command, of the worker processes and of Ray's own processes, and the peak memory of the command.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jprep.engine.executors.ray.executor import Ray, RayOptions
from jprep.engine.runner import SilentProgress, run_stage
from jprep.engine.stage import Result, Task
from tests.benchmarks.bench_executors import COUNTS, LIMIT, TASK_SECONDS, Empty
from tests.fakes.ray_cluster import RayCluster

NODES = 2


class Measured(Empty):
    """Empty tasks, whose worker processes write their CPU time to files at the end."""

    _began: float | None = None

    def run(self, task: Task, root: Path) -> Result:
        if self._began is None:
            self._began, self._root = time.process_time(), root
        return Result()

    def close(self) -> None:
        if self._began is not None:
            (self._root / f"worker-{os.getpid()}").write_text(str(time.process_time() - self._began))


def command(folder: Path, count: int, address: str) -> None:
    """Run the tasks as a command does; print CPU seconds at the start and at the end, and the peak memory in MB."""
    from tests.benchmarks import bench_ray  # pickled under this name, not `__main__`

    with contextlib.closing(Ray(1, lambda: False, RayOptions(address=address))) as ray:
        run_stage(bench_ray.Measured(1), folder / "first", folder / "first/empty", ray, SilentProgress())
        began = time.process_time()
        receipts = run_stage(bench_ray.Measured(count), folder, folder / "empty", ray, SilentProgress())
        assert len(receipts) == count
        print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def measure(cluster: RayCluster, count: int) -> tuple[float, float, float, float]:
    """CPU seconds of the command, the workers and Ray's processes, and the command's memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "first").mkdir()
        before = cluster.cpu_seconds()
        arguments = [sys.executable, "-m", "tests.benchmarks.bench_ray", folder, str(count), cluster.address]
        printed = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout
        used, memory = map(float, printed.split())
        workers = sum(float(path.read_text()) for path in Path(folder).glob("worker-*"))
        return used, workers, cluster.cpu_seconds() - before, memory


def main() -> None:
    print(f"{'tasks':>8}{'command: ms/task':>18}{'MB':>8}{'workers: ms/task':>18}{'Ray: ms/task':>14}")
    with contextlib.closing(RayCluster(NODES)) as cluster:
        for count in COUNTS:
            used, workers, ray, memory = measure(cluster, count)
            figures = [1000 * each / count for each in (used, workers, ray)]
            print(f"{count:8,}{figures[0]:18.2f}{memory:8.0f}{figures[1]:18.2f}{figures[2]:14.2f}", flush=True)
    share = sum(figures) / 1000 / TASK_SECONDS
    print(f"of tasks of {TASK_SECONDS} s, all of it is {share:.3%} (limit {LIMIT:.0%})")
    assert share < LIMIT


if __name__ == "__main__":
    command(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]) if len(sys.argv) > 1 else main()
