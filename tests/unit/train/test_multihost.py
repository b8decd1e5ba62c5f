"""Hosts that share a run directory; both are this machine, and each computes the whole run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.io.lock import hold_lock
from jprep.train.backend import Plan
from jprep.train.launcher.multihost import multihost_note
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.attempt import announce_attempt
from jprep.train.run.directory import write_plan
from jprep.train.run.events import read_events, record_event
from jprep.train.run.ranks import live_ranks
from tests.conftest import environment
from tests.fakes.small_run import await_true, plan_of, small_run, supervisor_command, weights

Started = list[subprocess.Popen[Any]]


def two_machines(run: Path, machines: int = 2, **env: str) -> Plan:
    plan = plan_of(run, HOSTS=str(machines), TRACE=str(run.parent), **env)
    return msgspec.structs.replace(plan, processes=2, machines=machines)


def train(run: Path, **env: str) -> int:
    return supervise(run, two_machines(run, **env), say=lambda text: None, backoff=0.01)


def join(started: Started, run: Path) -> subprocess.Popen[str]:
    command = multihost_note(run, 2).partition(": python ")[2].replace("NUMBER", "1").split()
    process = subprocess.Popen([sys.executable, *command], env=environment(), stderr=subprocess.PIPE, text=True)
    started.append(process)
    return process


def supervisor(started: Started, run: Path, machines: int = 2, **env: str) -> subprocess.Popen[Any]:
    plan = msgspec.json.encode(two_machines(run, machines, **env)).decode()
    command = [*supervisor_command(run)[:-1], plan]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, process_group=0)
    started.append(process)
    return process


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=600)[1]
    return process.returncode, said


def handles_sigterm(process: int) -> bool:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    [mask] = [line.split()[1] for line in lines if line.startswith("SigCgt")]
    return bool(int(mask, 16) >> signal.SIGTERM - 1 & 1)


def starts(run: Path) -> list[int]:
    return [event.step for event in read_events(run) if event.kind == "start"]


def seen(run: Path, number: int) -> dict[int, list[int]]:
    lines = (run.parent / f"rank-{number}").read_text().splitlines()
    return {one["step"]: one["indices"] for one in map(json.loads, lines)}


def test_both_hosts_resume_after_a_death(tmp_path: Path, started: Started) -> None:
    steps = 20  # each attempt dies at its second checkpoint
    other = join(started, tmp_path / "run")  # before there is a run
    run = small_run(tmp_path, steps=steps)
    assert train(run, JPREP_FAILPOINT="run.committed@2=die") == 0
    assert end_of(other) == (0, "")
    assert starts(run) == [0, 10] and seen(run, 0) == seen(run, 1)
    alone = small_run(tmp_path / "alone", steps=steps)
    assert supervise(alone, plan_of(alone)) == 0
    assert weights(run, steps) == weights(alone, steps)
    assert [e.step for e in read_events(run) if e.kind == "end"] == [steps]


@pytest.mark.parametrize(
    ("fault", "code", "words"), [("REFUSE_AT", 2, "a restart does not fix this"), ("CRASH_AT", 1, "died 2 times")]
)
def test_after_a_fatal_error_it_exits_with_the_code_of_the_run(
    fault: str, code: int, words: str, tmp_path: Path, started: Started
) -> None:
    run = small_run(tmp_path, max_restarts=1)
    other = join(started, run)
    assert train(run, **{fault: "15"}) == code  # both have saved step 10
    found, said = end_of(other)
    assert found == code and words in said
    assert [e.figures["code"] for e in read_events(run) if e.kind == "end"] == [code]


def test_a_fatal_error_on_another_host_ends_the_run_with_its_reason(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jprep.train.launcher.supervisor._GRACE", 0.1)
    run, said = small_run(tmp_path), list[str]()
    other = join(started, run)
    plan = two_machines(run, REFUSE_AT="15", BAD_RANK="1")  # the first waits for it at step 20
    assert supervise(run, plan, say=said.append, backoff=0.01) == 2
    assert "the run failed: a restart does not fix this" in said[-1]
    assert end_of(other)[0] == 2
    assert [e.figures["code"] for e in read_events(run) if e.kind == "end"] == [2]


def test_of_two_processes_with_the_same_rank_one_joins_the_run(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    both = [join(started, run), join(started, run)]
    await_true(lambda: all(handles_sigterm(one.pid) for one in both))  # they wait for the run, which is short
    assert train(run, PAUSE="0.05") == 0
    (first, words), (second, others) = (end_of(one) for one in both)
    assert first == second == 0
    assert (words + others).count("another process has joined this attempt as 1") == 1
    assert [e.figures["code"] for e in read_events(run) if e.kind == "end"] == [0]


def test_a_host_waits_for_the_plan_of_the_current_attempt(tmp_path: Path, started: Started) -> None:
    run, saw = small_run(tmp_path), tmp_path / "saw"
    code = f"import os; open({str(saw)!r}, 'a').write(os.environ['JPREP_ATTEMPT'] + os.environ['JPREP_RESUME'])"

    def plan(attempt: str, resume: str) -> None:
        env = {"JPREP_ATTEMPT": attempt, "JPREP_RESUME": resume}
        write_plan(run, Plan((sys.executable, "-c", code), env, 2, 4, 1, 0, machines=2))

    with hold_lock(run / "LOCK"):
        plan("first-0", "step-00000010")
        announce_attempt(run, "first-1")
        other = join(started, run)
        time.sleep(1)
        assert other.poll() is None and not saw.exists()
        plan("first-1", "step-00000020")
        await_true(lambda: saw.exists() and saw.read_text() == "first-1step-00000020")


def test_under_nohup_sighup_is_ignored(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        other = join(started, run)
    finally:
        signal.signal(signal.SIGHUP, before)
    first = supervisor(started, run, PAUSE="0.05")
    await_true(lambda: len(live_ranks(run)) == 2)
    other.send_signal(signal.SIGHUP)
    assert first.wait(600) == 0 and end_of(other)[0] == 0


def test_a_host_waits_for_a_stopped_or_failed_run_to_start_again(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    record_event(run, "end", 0, {"code": 3}, "no device")
    other = join(started, run)
    first = supervisor(started, run, PAUSE="0.1")
    await_true(lambda: any(event.kind == "checkpoint" for event in read_events(run)))
    first.send_signal(signal.SIGTERM)
    assert first.wait(600) == 130 and other.poll() is None
    assert train(run) == 0
    assert end_of(other)[0] == 0 and len(starts(run)) == 2


def test_on_a_stop_signal_it_stays_until_both_have_saved(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    first, other = supervisor(started, run, PAUSE="0.1"), join(started, run)
    await_true(lambda: len(live_ranks(run)) == 2 and starts(run))
    other.send_signal(signal.SIGUSR1)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(600) == 75 and end_of(other)[0] == 75
    assert [event.kind for event in read_events(run)][-2:] == ["checkpoint", "signal"]


def test_on_a_second_sigterm_it_kills_its_worker(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    supervisor(started, run, PAUSE="0.5")
    other = join(started, run)
    await_true(lambda: len(live_ranks(run)) == 2)
    other.terminate()
    other.send_signal(signal.SIGINT)  # two signals of one kind at once would be one
    assert end_of(other)[0] == 130
    await_true(lambda: len(live_ranks(run)) < 2)


def test_a_run_whose_processes_are_all_on_one_machine_is_not_joined(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    supervisor(started, run, machines=1, PAUSE="2")
    found, said = end_of(join(started, run))
    assert found == 2 and "there is no process 1: the run has 1 host" in said
