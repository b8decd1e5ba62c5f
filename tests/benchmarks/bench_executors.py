"""What a task costs beside its work: empty tasks through a queue and a worker as `jprep work` runs it.

CPU time of the waiting command and of the worker, each a process of its own, and the peak memory of the command. The
worker's receipts are synced to the disk one by one, so its wall-clock time says more of the disk than of jprep.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.engine.executors.queued import Queue, QueueOptions
from jprep.engine.queue import unpickler
from jprep.engine.queue.manifest import read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.share import Share
from jprep.engine.runner import SilentProgress, run_stage
from jprep.engine.stage import Result, Stage, Task

COUNTS = (1_000, 10_000)
TASK_SECONDS = 30
PER_PROCESS = 8  # tasks that a process of an array's element gets by default
LIMIT = 0.02


class Empty(Stage):
    """Tasks that do nothing."""

    name = "empty"

    def __init__(self, count: int) -> None:
        self._count = count

    def fields(self) -> dict[str, Any]:
        return {}

    def tasks(self) -> Iterator[Task]:
        for number in range(self._count):
            yield Task(f"{number:08}", number, digest=str(number))

    def run(self, task: Task, root: Path) -> Result:
        return Result()


def wait_for(folder: Path, count: int) -> None:
    """The waiting command."""
    from tests.benchmarks import bench_executors  # pickled under this name, not `__main__`

    stage, queue = bench_executors.Empty(count), Queue(1, lambda: False, QueueOptions(poll=5.0))
    assert len(run_stage(stage, folder, folder / ".state/empty", queue, SilentProgress())) == count


def work(folder: Path) -> None:
    """The worker."""
    queue = folder / ".state/empty/queue"
    while (manifest := read_queue(queue)) is None:
        time.sleep(0.1)
    assert Share(QueueReader(queue, manifest), 0, 1, 1, lambda: False).run().complete


def part(name: str, folder: Path, count: int) -> None:
    """Do one part; print its CPU seconds and its peak memory in MB."""
    unpickler._packages = lambda: frozenset({"jprep", "tests"})
    wait_for(folder, count) if name == "wait" else work(folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def measure(count: int) -> list[list[float]]:
    """The figures of the waiting command and of the worker."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bench_executors"]
        parts = [
            subprocess.Popen([*command, name, folder, str(count)], stdout=subprocess.PIPE, text=True)
            for name in ("wait", "work")
        ]
        return [list(map(float, each.communicate()[0].split())) for each in parts]


def start_seconds() -> float:
    """CPU time of a `jprep work` that finds nothing to do."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "jprep", "work", folder], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    print(f"{'tasks':>8}{'command: ms/task':>18}{'MB':>8}{'worker: ms/task':>18}{'MB':>8}")
    for count in COUNTS:
        (waited, memory), (worked, most) = measure(count)
        print(
            f"{count:8,}{1000 * waited / count:18.2f}{memory:8.0f}{1000 * worked / count:18.2f}{most:8.0f}", flush=True
        )
    start, each = start_seconds(), (waited + worked) / COUNTS[-1]
    share = (start / PER_PROCESS + each) / TASK_SECONDS
    print(
        f"start of an element {start:.2f} s; of tasks of {TASK_SECONDS} s, all of it is {share:.2%} (limit {LIMIT:.0%})"
    )
    assert share < LIMIT


if __name__ == "__main__":
    part(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 1 else main()
