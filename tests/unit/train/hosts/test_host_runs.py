"""Runs over hosts that a stand-in for ssh starts on this machine; each host computes the whole run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Placement, Plan
from jprep.train.hosts.watch import NODE_SECONDS, seconds_until_lost
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.attempt import ATTEMPT
from jprep.train.run.directory import read_plan
from jprep.train.run.events import read_events
from jprep.train.run.ranks import live_ranks
from tests.conftest import environment
from tests.fakes.small_run import await_true, in_thread, plan_of, small_run, supervisor_command, weights

HOSTS = ("127.0.0.2", "127.0.0.3")
SSH = """#!/bin/sh
shift 6
[ "$1" = "$UNREACHABLE" ] && exit 255
exec sh -c "$2"
"""
JOIN = """
import sys
from pathlib import Path
from jprep.train.launcher.multihost import join_run
sys.exit(join_run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
"""


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setattr("jprep.train.launcher.supervisor._GRACE", 1.0)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def placed(run: Path, hosts: tuple[str, ...] = HOSTS, starter: str = "ssh", **env: str) -> Plan:
    plan = plan_of(run, HOSTS=str(len(hosts)), TRACE=str(run.parent), **env)
    where = Placement(starter, hosts, "127.0.0.1")  # type: ignore[arg-type]
    return msgspec.structs.replace(plan, processes=len(hosts), machines=len(hosts), placement=where)


def train(run: Path, plan: Plan, said: list[str] | None = None, **more: Any) -> int:
    return supervise(run, plan, say=[].append if said is None else said.append, backoff=0.01, **more)


def supervisor(run: Path, plan: Plan) -> subprocess.Popen[bytes]:
    command = [*supervisor_command(run)[:-1], msgspec.json.encode(plan).decode()]
    return subprocess.Popen(command, env=environment())


def starts(run: Path) -> list[int]:
    return [event.step for event in read_events(run) if event.kind == "start"]


def launcher(run: Path, number: int) -> int:
    """Return the process id of a host's launcher."""
    wanted = ["-m", "jprep.train.hosts.host_launcher", str(run), read_plan(run).env[ATTEMPT], str(number)]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_bytes().decode(errors="replace").split("\0")[1:-1] == wanted:
                return int(path.parent.name)
    raise AssertionError(f"there is no launcher {number}")


@pytest.mark.soak
def test_two_hosts_resume_after_a_death_with_the_same_weights(tmp_path: Path) -> None:
    steps = 20  # each attempt dies at its second checkpoint
    run, alone = (small_run(folder, steps=steps) for folder in (tmp_path, tmp_path / "alone"))
    said = list[str]()
    assert train(run, placed(run, JPREP_FAILPOINT="run.committed@2=die"), said) == 0, said
    assert starts(run) == [0, 10]
    assert supervise(alone, plan_of(alone)) == 0
    assert weights(run, steps) == weights(alone, steps)


def test_a_lost_host_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODE_SECONDS, "12")
    run, said, lost = small_run(tmp_path, steps=200), list[str](), list[str]()

    def replan(names: Any) -> Plan:
        lost.extend(names)
        return placed(run, HOSTS[1:])

    def lose_first_host() -> None:
        await_true(lambda: max((e.step for e in read_events(run) if e.kind == "checkpoint"), default=0) >= 10)
        os.kill(launcher(run, 0), signal.SIGKILL)  # its process goes on, as on a host that is cut off

    thread = in_thread(lose_first_host)
    assert train(run, placed(run, PAUSE="0.2"), said, replan=replan) == 0
    thread.join()
    assert lost == [HOSTS[0]] and f"lost {HOSTS[0]}" in said[0] and len(starts(run)) == 2
    last = read_plan(run).placement
    assert last and last.names == HOSTS[1:]


def test_without_other_hosts_the_run_is_to_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNREACHABLE", HOSTS[1])
    run, said = small_run(tmp_path), list[str]()
    assert train(run, placed(run), said, replan=lambda lost: None) == 75
    assert f"lost {HOSTS[1]}" in said[-1] and "run the same command again" in said[-1]
    assert not [event for event in read_events(run) if event.kind == "end"]
    monkeypatch.delenv("UNREACHABLE")
    assert train(run, placed(run)) == 0


class Clock:
    """A clock that can run faster."""

    def __init__(self) -> None:
        self._state = 0.0, time.monotonic(), 1.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        begun, since, speed = self._state
        return begun + (time.monotonic() - since) * speed

    def run(self, speed: float) -> None:
        self._state = self.monotonic(), time.monotonic(), speed


def test_a_process_that_hangs_on_another_host_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, said, clock = small_run(tmp_path, steps=30, silent_minutes=10), list[str](), Clock()
    monkeypatch.setattr("jprep.train.launcher.supervisor.time", clock)
    monkeypatch.setattr("jprep.train.launcher.silence.time", clock)

    def suspend() -> None:
        await_true(lambda: len(live_ranks(run)) == 2 and starts(run))
        os.kill(live_ranks(run)[1], signal.SIGSTOP)  # a suspended process cannot end itself
        clock.run(200)  # ten minutes in three seconds
        await_true(lambda: said)
        clock.run(1)

    thread = in_thread(suspend)
    assert train(run, placed(run, PAUSE="0.1"), said) == 0
    thread.join()
    assert "no sign of life" in said[0] and len(starts(run)) == 2


def test_a_stopped_run_saves_on_all_hosts(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    for number, code_of_end in ((signal.SIGTERM, 130), (signal.SIGUSR1, 75)):
        before = len(starts(run))
        process = supervisor(run, placed(run, PAUSE="0.2"))
        await_true(lambda before=before: len(starts(run)) > before)
        process.send_signal(number)
        assert process.wait(600) == code_of_end
        assert [event.kind for event in read_events(run)][-2:] == ["checkpoint", "signal"]


@pytest.mark.parametrize(("fault", "code"), [({}, 0), ({"CRASH_AT": "15"}, 1)])
def test_processes_of_an_outer_launcher_end_with_the_same_code(
    tmp_path: Path, fault: dict[str, str], code: int
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-c", JOIN, str(run), "1", "600"]
    other = subprocess.Popen(command, env=environment())  # before there is a run
    try:
        small_run(tmp_path, max_restarts=1)
        assert train(run, placed(run, ("0", "1"), "join", **fault)) == code
        assert other.wait(600) == code
    finally:
        other.kill()


def test_on_a_second_signal_a_process_of_an_outer_launcher_kills_its_rank(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    started = [subprocess.Popen([sys.executable, "-c", JOIN, str(run), "1", "600"], env=environment())]
    try:
        started.append(supervisor(run, placed(run, ("0", "1"), "join", PAUSE="0.2")))
        await_true(lambda: len(live_ranks(run)) == 2 and starts(run))
        started[0].send_signal(signal.SIGUSR1)
        started[0].send_signal(signal.SIGTERM)
        assert started[0].wait(600) == 75
        assert len(live_ranks(run)) < 2
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize("seconds", ["abc", "nan", "0", "-5", "inf"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODE_SECONDS, seconds)
    with pytest.raises(ConfigError, match=f"'{seconds}' is not a number of seconds") as error:
        seconds_until_lost()
    assert error.value.where == NODE_SECONDS and "unset" in error.value.fix


def test_a_process_whose_first_one_never_starts_gives_up(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", JOIN, str(tmp_path / "run"), "1", "1"], env=environment())
    assert done.returncode == 75
