"""Locks of directories, and the worker processes that inherit them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep.errors import MachineError
from jprep.io.lock import hold_lock, is_locked


@pytest.fixture
def waiting() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that live until the end of the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start_worker() -> subprocess.Popen[bytes]:
    """Start a process that inherits the open files, as an executor's workers do."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)


def test_an_idle_worker_does_not_keep_a_finished_lock(tmp_path: Path, waiting: list[subprocess.Popen[bytes]]) -> None:
    path = tmp_path / "LOCK"
    with hold_lock(path):
        waiting.append(start_worker())
    assert not is_locked(path)
    with hold_lock(path, timeout=0.1):
        pass


def test_a_worker_keeps_the_lock_after_an_error(tmp_path: Path, waiting: list[subprocess.Popen[bytes]]) -> None:
    path = tmp_path / "LOCK"
    with pytest.raises(KeyboardInterrupt), hold_lock(path):
        waiting.append(start_worker())
        raise KeyboardInterrupt
    with pytest.raises(MachineError, match="another jprep"), hold_lock(path, timeout=0.1):
        pass


def test_a_deleted_lock_is_free(tmp_path: Path) -> None:
    path = tmp_path / "LOCK"
    with hold_lock(path, keep=False):
        assert is_locked(path)
    assert not path.exists()
    with hold_lock(path, timeout=0.1):
        pass
