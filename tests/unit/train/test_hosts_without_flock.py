"""Runs whose hosts share a file system on which `flock` does not reach other hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from jprep.errors import MachineError
from jprep.io import lock as locks
from jprep.io.lock import LockWatch, hold_lock
from jprep.io.shared.file_systems import LOCKS_VARIABLE
from jprep.io.shared.heartbeats import BeatFile, Timing
from jprep.io.shared.host import Holder
from jprep.io.shared.lease import LeaseWatch, evict, lease_folder
from jprep.io.shared.ownership import check_ownership
from jprep.train.launcher.multihost import multihost_note
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.attempt import AttemptWatch, announce_attempt, is_current_attempt
from jprep.train.run.events import read_events, record_event
from jprep.train.run.ranks import RANKS, RankLock, claim_process, clear_ranks, live_ranks, release_ended_ranks
from jprep.train.worker.unsupervised import await_start
from tests.conftest import environment
from tests.fakes.small_run import plan_of, small_run

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture(autouse=True)
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, "none")


def elsewhere(path: Path) -> BeatFile:
    """Let a process of another host hold the lock of a file."""
    holder = Holder(session="f" * 16, host="elsewhere", name="node", process=os.getpid(), flock="none")
    path.parent.mkdir(exist_ok=True)
    lease_folder(path).mkdir()
    path.touch()
    file = BeatFile(lease_folder(path) / f"{holder.session}-0", holder)
    file.create()
    return file


@contextlib.contextmanager
def beating(file: BeatFile) -> Iterator[None]:
    """Show changes for the time of the block."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.05):
            file.change()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_the_supervisor_of_another_host_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "TIMING", Timing(0.05, 100, 1000))
    file = elsewhere(tmp_path / "LOCK")
    (tmp_path / "LOCK").write_text("attempt-1\n")
    lock = LockWatch(tmp_path / "LOCK")
    assert is_current_attempt(tmp_path, "attempt-1", lock)
    assert not is_current_attempt(tmp_path, "attempt-1", lock, certain=True)
    with beating(file):
        while not is_current_attempt(tmp_path, "attempt-1", lock, certain=True):
            time.sleep(0.01)
    assert not is_current_attempt(tmp_path, "attempt-2", lock)
    evict(lease_folder(tmp_path / "LOCK"), file.path.name)
    while is_current_attempt(tmp_path, "attempt-1", lock):
        time.sleep(0.01)


def test_ranks_of_other_hosts_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "TIMING", Timing(0.05, 0.2, 0.5))
    file, look = elsewhere(tmp_path / RANKS / "rank-00001"), LeaseWatch.look
    (tmp_path / RANKS / "rank-00001").write_text("7 node/boot/pid\n")
    with monkeypatch.context() as patched, pytest.raises(MachineError, match="do not exit") as error:
        patched.setattr(LeaseWatch, "look", lambda watch: file.change() or look(watch))  # a beat before each look
        clear_ranks(tmp_path, timeout=0, remote_timeout=2)
    assert "7 on node" in str(error.value)
    clear_ranks(tmp_path)  # it shows no changes any more
    assert list((tmp_path / RANKS).iterdir()) == []


def test_a_rank_of_this_host_is_released_when_it_ends(tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path; from jprep.train.run.ranks import RankLock\n"
        "lock = RankLock(Path(sys.argv[1]), 1); os.kill(os.getpid(), 9)"
    )
    (tmp_path / RANKS).mkdir()
    subprocess.run([sys.executable, "-c", code, tmp_path], env=environment(), check=False)
    assert lease_folder(tmp_path / RANKS / "rank-00001").exists()
    release_ended_ranks(tmp_path)
    assert not lease_folder(tmp_path / RANKS / "rank-00001").exists()
    with contextlib.closing(RankLock(tmp_path, 1)):
        assert live_ranks(tmp_path) == [os.getpid()]
    assert live_ranks(tmp_path) == []


def test_each_part_of_an_attempt_is_claimed_once(tmp_path: Path) -> None:
    (tmp_path / RANKS).mkdir()
    assert [claim_process(tmp_path, "attempt-1", 1) for _ in range(3)] == [True, False, False]


def test_nothing_is_committed_in_an_attempt_that_is_over(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "LOCK"):
        announce_attempt(tmp_path, "attempt-1")
        with contextlib.closing(AttemptWatch(tmp_path, "attempt-1")) as watch:
            check_ownership()
            watch._done.set()  # as if the process was suspended when the attempt ended
            announce_attempt(tmp_path, "attempt-2")
            with pytest.raises(MachineError, match="this attempt is over"):
                record_event(tmp_path, "log", 1)
    assert read_events(tmp_path) == []


def test_a_supervisor_whose_run_was_taken_over_changes_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    worker: list[int] = []

    def take_over() -> None:
        while not worker:
            worker.extend(live_ranks(run))
            time.sleep(0.01)
        lease = lease_folder(run / "LOCK")
        evict(lease, next(lease.iterdir()).name)
        elsewhere(run / "LOCK").change()
        (run / "LOCK").write_text("theirs\n")

    other = threading.Thread(target=take_over)
    other.start()
    with pytest.raises(MachineError, match="another process has taken over"):
        supervise(run, plan_of(run, PAUSE="0.2"), say=lambda text: None, backoff=0.01)
    other.join()
    assert (run / "LOCK").read_text() == "theirs\n" and (run / RANKS).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(worker[0], 0)


def test_rank_0_on_another_host_decides(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.fakes.host_process import become\n"
        "from jprep.train.run.checkpoints import CheckpointStore\n"
        "from jprep.train.worker.unsupervised import lead_start\n"
        "become('other', 1000)\n"
        "run = Path(sys.argv[1])\n"
        "with lead_start(run, CheckpointStore(run / 'checkpoints', 'job')) as start:\n"
        "    print(start.attempt, flush=True)\n"
        "    sys.stdin.read()"
    )
    (tmp_path / "ranks").mkdir()
    command = [sys.executable, "-c", code, tmp_path]
    with subprocess.Popen(command, env=environment(), stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout
        assert await_start(tmp_path, 600).attempt == other.stdout.readline().strip()
        other.communicate("")
    with pytest.raises(MachineError, match="rank 0 has not started"):
        await_start(tmp_path, 0.2)


def test_hosts_with_process_ids_of_their_own_train_together(tmp_path: Path) -> None:
    """The second host is a process namespace; this test sees the beats of the real timing."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make process namespaces")
    run = small_run(tmp_path)
    command = multihost_note(run, 2).partition(": python ")[2].replace("NUMBER", "1").split()
    joined = subprocess.Popen(
        [*UNSHARE, sys.executable, *command], env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        plan = msgspec.structs.replace(plan_of(run, HOSTS="2", TRACE=str(tmp_path)), processes=2, machines=2)
        assert supervise(run, plan, say=lambda text: None, backoff=0.01) == 0
        assert joined.wait(600) == 0, joined.communicate()[1]
    finally:
        joined.send_signal(signal.SIGKILL)
        joined.communicate()
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0]
    assert not list((run / RANKS).glob("*.lease")) and not lease_folder(run / "LOCK").exists()
