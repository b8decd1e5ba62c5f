"""A stage for clusters: tasks that record where they run, and fail in the way that they are asked for."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.engine.stage import Output, Result, Stage, Task
from jprep.errors import InputError
from jprep.io.atomic import file_sha256, write_atomic

_log = logging.getLogger("jprep.tests")


class Numbers(Stage):
    """Writes a file for each number.

    Args:
        count: number of tasks.
        faults: what happens at a number: `error`, `bug`, `die`, `die once`, `warn`, `forgotten`, `wait`
            for another worker.
        seconds: how long a task takes.
        name: name of the stage.
    """

    def __init__(self, count: int, faults: dict[int, str] | None = None, seconds: float = 0, name: str = "n") -> None:
        self.name = name
        self._count, self._faults, self._seconds = count, faults or {}, seconds
        self.created = 0
        self.opened = ""

    def fields(self) -> dict[str, Any]:
        return {"version": 1}

    def total(self) -> int:
        return self._count

    def tasks(self) -> Iterator[Task]:
        for number in range(self._count):
            self.created = number + 1
            yield Task(f"{number:05}", number, weight=1, digest=f"d{number}")

    def run(self, task: Task, root: Path) -> Result:
        self.opened = f"{os.getpid()}-{self.name}"
        fault = self._faults.get(task.payload, "")
        with (root / "begun").open("a") as file:
            file.write(f"{task.id} {os.getpid()}\n")
        time.sleep(self._seconds)
        self._fail_before(fault, root)
        path = f"out/{task.id}"
        write_atomic(root / path, str(task.payload**2).encode())
        return Result(
            [Output(path, 1, file_sha256(root / path))], {"squares": task.payload}, {"n/odd": task.payload % 2}
        )

    def _fail_before(self, fault: str, root: Path) -> None:
        if fault == "error":
            raise InputError("it is damaged", where="byte 7", fix="repair it")
        if fault == "bug":
            raise ZeroDivisionError("a bug")
        if fault == "warn":
            _log.warning("a strange record")
            print("noise on standard output")
        if fault == "wait":
            _wait_for_another_worker(root / "begun")
        if fault == "forgotten":
            for token in (root / self.name).glob("driver.tmp-*"):
                token.unlink()  # as the next command does when it claims the directory of a killed one
        if fault == "die" or (fault == "die once" and not (root / "died").exists()):
            (root / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        if self.opened:
            Path.cwd().joinpath(f"closed-{self.opened}").touch()
        self.opened = ""


def _wait_for_another_worker(begun: Path) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and len({line.split()[1] for line in begun.read_text().splitlines()}) < 2:
        time.sleep(0.05)
