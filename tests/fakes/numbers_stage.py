"""A small stage for tests of executors: it writes the square of each number, and fails where a test wants it to."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.queue import unpickler
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.errors import InputError, JprepError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.os_errors import translate_os_error


class Numbers(Stage):
    """Writes squares.

    Args:
        count: number of tasks.
        faults: what happens at some numbers: `input`, `read PATH` (a file that does not exist), `once` (an error,
            until a file `once` exists) or `die`.
    """

    name = "numbers"

    def __init__(self, count: int, faults: dict[int, str] | None = None) -> None:
        self._count, self._faults = count, faults or {}

    def fields(self) -> dict[str, Any]:
        return {"version": 1}

    def total(self) -> int:
        return self._count

    def tasks(self) -> Iterator[Task]:
        for number in range(self._count):
            yield Task(f"{number:06}", number, weight=1, digest=f"d{number}")

    def run(self, task: Task, root: Path) -> Result:
        fail(self._faults.get(task.payload, ""), root)
        path = f"out/{task.id}"
        write_atomic(root / path, str(task.payload**2).encode())
        return Result([Output(path, 1, file_sha256(root / path))], {"n": task.payload})


def fail(fault: str, root: Path) -> None:
    """Do what a fault asks for."""
    if fault == "input":
        raise InputError("it is damaged", where="byte 7", fix="repair it")
    if fault.startswith("read "):
        raise translate_os_error(FileNotFoundError(errno.ENOENT, ""), fault[5:], "read")
    if fault == "once" and not (root / "once").exists():
        write_atomic(root / "once", b"")
        raise JprepError("it failed once")
    if fault == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def admit_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queues hold the classes of tests."""
    packages = unpickler._packages() | {"tests"}
    monkeypatch.setattr(unpickler, "_packages", lambda: packages)
