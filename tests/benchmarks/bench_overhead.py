"""What the engine itself costs: CPU milliseconds per empty task, and the memory of the main process.

Its tasks write nothing but their receipts. The memory is that above an empty run's.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress, run_stage
from jprep.engine.stage import Result, Stage, Task

SIZES = (1_000, 10_000)
TASK_S = 30
"""Seconds of a task of real work, which the cost of a task is compared with."""


class Empty(Stage):
    """A stage whose tasks do nothing."""

    name = "empty"

    def __init__(self, size: int) -> None:
        self._size = size

    def fields(self) -> dict[str, Any]:
        """Return nothing: the output depends on nothing."""
        return {}

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks."""
        for number in range(self._size):
            yield Task(f"{number:06d}", number)

    def run(self, task: Task, root: Path) -> Result:
        """Do nothing."""
        return Result()


def main() -> None:
    names = ("workers", "tasks", "CPU ms/task", "resumed", "MiB of main", f"% of {TASK_S} s")
    print("".join(f"{name:>13}" for name in names))
    for workers in (1, 2):
        for size in SIZES:
            with tempfile.TemporaryDirectory() as name:
                fresh, peak = _measure(workers, size, name)
                again, _ = _measure(workers, size, name)
                _, empty = _measure(workers, 0, f"{name}/none")
            share = 100 * fresh / 1000 / TASK_S
            figures = f"{fresh:13.2f}{again:13.2f}{(peak - empty) / 1024:13.1f}{share:13.3f}"
            print(f"{workers:13}{size:13,}{figures}", flush=True)


def _measure(workers: int, size: int, folder: str) -> tuple[float, int]:
    """Run a stage in a process of its own; return CPU milliseconds per task, and the peak memory in KiB."""
    # Imported, and not run as a script: workers look for the stage in its module.
    code = f"from tests.benchmarks.bench_overhead import run_empty; run_empty({workers}, {size}, {folder!r})"
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    cpu, peak = done.stdout.split()
    return 1000 * float(cpu) / max(1, size), int(peak)


def run_empty(workers: int, size: int, folder: str) -> None:
    """Run a stage; print CPU seconds, and the peak memory of this process in KiB."""
    root, begun = Path(folder), _cpu()
    root.mkdir(exist_ok=True)
    with closing(Local(workers)) as executor:
        receipts = run_stage(Empty(size), root, root / "state", executor, SilentProgress())
    assert len(receipts) == size
    print(_cpu() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
