"""Seconds from a kill to the first step after it, of a small RoBERTa on the CPU by the backend torch.

The worker alone is killed, which the supervisor starts again; or all processes of the command, and the command is given
again at once, as the service of a run does after a boot. The time is that of loading libraries, checkpoint and data.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.train.run.events import read_events
from tests.benchmarks.measure import JPREP

EVERY = 50
RECIPE = f"""name = "resume"

[train]
task = "mlm"
model = {{ preset = "roberta-tiny" }}
batch = 8
length = 64
steps = 1000000
log_every = 1
trackers = []
checkpoint = {{ every_steps = {EVERY} }}
"""
_PAUSE_S, _PATIENCE_S = 0.05, 300.0
_PROC = Path("/proc")


def main() -> None:
    if "JPREP_TORCH" not in os.environ:
        raise SystemExit("JPREP_TORCH names no Python that has PyTorch")
    print(f"{'killed':20}{'seconds':>10}{'steps repeated':>18}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_suite_tokenizer(folder / "work/resume/tokenizer", "roberta")
        write_suite_dataset(folder / "work/resume/dataset", "roberta")
        folder.joinpath("resume.toml").write_text(RECIPE)
        run = folder / "work/resume/runs/torch"
        process = start(folder)
        try:
            await_true(lambda: newest(run) > 1.5 * EVERY)
            report("the worker", run, lambda: os.kill(worker(run), signal.SIGKILL))
            await_true(lambda: newest(run) > 2.5 * EVERY)

            def kill_all() -> None:
                nonlocal process
                stop(process)
                process = start(folder)

            report("all processes", run, kill_all)
        finally:
            stop(process)


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [JPREP, "train", "resume.toml", "--backend", "torch"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a command; its workers have sessions of their own."""
    for pid in [process.pid, *descendants(process.pid)]:
        os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    parents = dict(_parents())
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def _parents() -> Iterator[tuple[int, int]]:
    for path in _PROC.glob("[0-9]*"):
        try:
            yield int(path.name), int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it is gone
            continue


def worker(run: Path) -> int:
    """Return the process that trains."""
    for path in _PROC.glob("[0-9]*"):
        try:
            words = path.joinpath("cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"jprep_torch.worker" in words and str(run).encode() in words:
            return int(path.name)
    raise SystemExit("no worker is running")


def report(name: str, run: Path, kill: Callable[[], Any]) -> None:
    """Kill, and print how long it takes until a step is logged again, and how many steps are computed again."""
    before, starts, begun = newest(run), len(started(run)), time.perf_counter()
    kill()
    await_true(lambda: len(started(run)) > starts and newest(run) > started(run)[-1])
    seconds = time.perf_counter() - begun
    print(f"{name:20}{seconds:10.1f}{before - started(run)[-1]:18}", flush=True)


def started(run: Path) -> list[int]:
    """Return the steps that the run was started from."""
    return [event.step for event in read_events(run) if event.kind == "start"]


def newest(run: Path) -> int:
    """Return the last logged step since the last start; 0 before the first one."""
    last = 0
    for event in read_events(run) if run.exists() else ():
        last = 0 if event.kind == "start" else event.step if event.kind == "log" else last
    return last


def await_true(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit("the run does not go on")
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
