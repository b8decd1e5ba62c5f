"""Processes of several hosts that share a directory without `flock`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.io import lock as locks
from jprep.io.lock import LockedError, LockWatch, describe_locks, hold_lock, is_locked
from jprep.io.shared.file_systems import LOCKS_VARIABLE
from jprep.io.shared.heartbeats import Timing
from jprep.io.shared.lease import lease_folder
from tests.conftest import ROOT, environment

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes of hosts; see `tests.fakes.host_process`."""
    started: list[Process] = []

    def begin(name: str, stale: float = 1000.0, **options: Any) -> Process:
        arguments = [name, str(tmp_path / "LOCK"), str(tmp_path / "log"), str(stale)]
        command = [sys.executable, "-m", "tests.fakes.host_process", *arguments]
        env = environment(**{LOCKS_VARIABLE: "none"})
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL} | options
        started.append(subprocess.Popen(command, cwd=ROOT, env=env, text=True, **pipes))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def said(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def await_line(folder: Path, line: str) -> None:
    while line not in said(folder):
        time.sleep(0.02)


@pytest.fixture
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, "none")
    monkeypatch.setattr(locks, "TIMING", Timing(beat=0.2, valid=300, stale=1000))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_one_of_many_hosts_takes_over_from_a_dead_one(number: signal.Signals, start: Start, tmp_path: Path) -> None:
    first = start("first")
    await_line(tmp_path, "first begins")
    first.send_signal(number)
    others = [start(f"host-{each}", stale=10, stdin=subprocess.DEVNULL) for each in range(5)]
    assert [each.wait(600) for each in others] == [0] * 5
    lines = said(tmp_path)[1:]
    assert lines[::2] == [line.replace("ends", "begins") for line in lines[1::2]]
    assert sorted(lines[1::2]) == [f"host-{each} ends" for each in range(5)]
    if number == signal.SIGSTOP:
        first.send_signal(signal.SIGCONT)
        assert "another process has taken over this directory" in first.communicate("\n")[0]
        assert first.returncode == 3 and said(tmp_path)[1:] == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOCK", "log"]


@pytest.mark.usefixtures("without_flock")
def test_a_live_holder_on_another_host_is_named(start: Start, tmp_path: Path) -> None:
    first = start("first")
    await_line(tmp_path, "first begins")
    named = rf"another jprep is running here: process {first.pid} on .* since 20.* UTC"
    with pytest.raises(LockedError, match=named), hold_lock(tmp_path / "LOCK", timeout=0):
        raise AssertionError("not reached")
    assert is_locked(tmp_path / "LOCK")
    first.communicate("\n")
    assert first.returncode == 0 and not is_locked(tmp_path / "LOCK")


@pytest.mark.usefixtures("without_flock")
def test_on_its_own_host_a_killed_holder_is_replaced_at_once(start: Start, tmp_path: Path) -> None:
    killed = start(locks.describe_process().host)
    await_line(tmp_path, f"{locks.describe_process().host} begins")
    killed.kill()
    deadline = time.monotonic() + 600
    while killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    with hold_lock(tmp_path / "LOCK", timeout=0):
        pass
    assert not lease_folder(tmp_path / "LOCK").exists()


@pytest.mark.usefixtures("without_flock")
def test_a_watcher_learns_whether_the_holder_is_alive(start: Start, tmp_path: Path) -> None:
    first, watch = start("first"), LockWatch(tmp_path / "LOCK")
    await_line(tmp_path, "first begins")
    while watch.is_held() is None:
        time.sleep(0.02)
    assert watch.is_held() is True
    first.communicate("\n")
    while watch.is_held():
        time.sleep(0.02)
    assert watch.is_held() is False


@pytest.mark.parametrize("flock", ["across", "host", "none"])
def test_a_lock_that_is_released_leaves_nothing(flock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, flock)
    with hold_lock(tmp_path / "LOCK"):
        assert lease_folder(tmp_path / "LOCK").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["LOCK"]


def test_a_local_disk_has_no_lease(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "LOCK"):
        assert [path.name for path in tmp_path.iterdir()] == ["LOCK"]
    assert describe_locks(tmp_path) == "flock"


def test_a_file_system_without_flock_has_a_lease_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, "host")

    def fail(handle: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(locks.fcntl, "flock", fail)
    assert describe_locks(tmp_path) == "lease only"
    second = hold_lock(tmp_path / "LOCK", timeout=0)
    with hold_lock(tmp_path / "LOCK"), pytest.raises(LockedError, match=f"process {os.getpid()} on"), second:
        raise AssertionError("not reached")


HOLD = """
import sys
from pathlib import Path
from jprep.io import lock
from jprep.io.shared.heartbeats import Timing
lock.TIMING = Timing(0.2, 300, float(sys.argv[2]))
with lock.hold_lock(Path(sys.argv[1]), timeout=0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[list[Path]]:
    """Two mounts of one directory by FUSE: each has a `flock` and a cache of its own, like two hosts."""
    (tmp_path / "disk").mkdir()
    made: list[Path] = []
    for name in "ab":
        (tmp_path / name).mkdir()
        command = ["bindfs", "-o", "entry_timeout=5,negative_timeout=5", str(tmp_path / "disk"), str(tmp_path / name)]
        if not shutil.which("bindfs") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("needs bindfs and the right to mount")
        made.append(tmp_path / name)
    yield made
    for path in made:
        subprocess.run(["fusermount3", "-u", "-z", path], capture_output=True, check=False)


def test_two_mounts_with_equal_process_ids(mounts: list[Path]) -> None:
    """Each process is the first one of its own process namespace."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make process namespaces")

    def hold(mount: Path) -> Process:
        command = [*unshare, sys.executable, "-c", HOLD, str(mount / "LOCK"), "10"]
        return subprocess.Popen(command, env=environment(), stdin=-1, stdout=-1, stderr=-1, text=True)

    first = hold(mounts[0])
    assert first.stdout and first.stdout.readline() == "held\n"
    refused = hold(mounts[1])
    assert "another jprep is running here: process 1 on" in refused.communicate()[1]
    first.kill()
    first.communicate()
    second = hold(mounts[1])
    assert second.communicate("")[0] == "held\n"
