"""Machines that meet in a run directory; both are this one, and each computes all of the run."""

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

from jprep.train.attempt import seated
from jprep.train.backend import Plan
from jprep.train.events import read_events, record
from jprep.train.joining import told
from jprep.train.supervise import supervise
from tests.conftest import environment
from tests.fakes.small_run import await_true, plan_of, small_run, supervisor_command, weights

Started = list[subprocess.Popen[Any]]


def two_machines(run: Path, **env: str) -> Plan:
    return msgspec.structs.replace(plan_of(run, HOSTS="2", TRACE=str(run.parent), **env), processes=2)


def train(run: Path, **env: str) -> int:
    return supervise(run, two_machines(run, **env), say=lambda text: None, backoff=0.01)


def join(started: Started, run: Path) -> subprocess.Popen[str]:
    command = told(run, 2).partition(": python ")[2].replace("NUMBER", "1").split()
    process = subprocess.Popen([sys.executable, *command], env=environment(), stderr=subprocess.PIPE, text=True)
    started.append(process)
    return process


def supervisor(started: Started, run: Path, **env: str) -> subprocess.Popen[Any]:
    plan = msgspec.json.encode(two_machines(run, **env)).decode()
    command = [*supervisor_command(run)[:-1], plan]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, process_group=0)
    started.append(process)
    return process


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def starts(run: Path) -> list[int]:
    return [event.step for event in read_events(run) if event.kind == "start"]


def seen(run: Path, number: int) -> dict[int, list[int]]:
    lines = (run.parent / f"rank-{number}").read_text().splitlines()
    return {one["step"]: one["indices"] for one in map(json.loads, lines)}


def test_both_see_all_rows_and_go_on_together_after_a_death(tmp_path: Path, started: Started) -> None:
    other = join(started, tmp_path / "run")  # before there is a run
    run = small_run(tmp_path)
    assert train(run, JPREP_FAILPOINT="run.committed@2=die") == 0
    assert end_of(other) == (0, "")
    assert starts(run)[:2] == [0, 10] and seen(run, 0) == seen(run, 1)
    alone = small_run(tmp_path / "alone")
    assert supervise(alone, plan_of(alone)) == 0
    assert weights(run) == weights(alone)
    assert [e.step for e in read_events(run) if e.kind == "end"] == [60]


@pytest.mark.parametrize(
    ("fault", "code", "words"), [("REFUSE_AT", 2, "no restart mends this"), ("CRASH_AT", 1, "died 2 times")]
)
def test_where_the_run_fails_for_good_it_leaves_with_its_code(
    fault: str, code: int, words: str, tmp_path: Path, started: Started
) -> None:
    run = small_run(tmp_path, max_restarts=1)
    other = join(started, run)
    assert train(run, **{fault: "15"}) == code  # both have saved step 10
    found, said = end_of(other)
    assert found == code and words in said
    assert [e.figures["code"] for e in read_events(run) if e.kind == "end"] == [code]


def test_it_waits_for_a_run_that_was_stopped_and_for_one_that_had_failed_before(
    tmp_path: Path, started: Started
) -> None:
    run = small_run(tmp_path)
    record(run, "end", 0, {"code": 3}, "no device")
    other = join(started, run)
    first = supervisor(started, run, PAUSE="0.02")
    await_true(lambda: any(event.kind == "checkpoint" for event in read_events(run)))
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 130 and other.poll() is None
    assert train(run) == 0
    assert end_of(other)[0] == 0 and len(starts(run)) == 2


def test_asked_to_leave_it_stays_until_both_have_saved(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    first, other = supervisor(started, run, PAUSE="0.05"), join(started, run)
    await_true(lambda: len(seated(run)) == 2 and starts(run))
    other.terminate()
    first.terminate()
    assert first.wait(30) == 130 and end_of(other)[0] == 130
    assert [event.kind for event in read_events(run)][-2:] == ["checkpoint", "signal"]


def test_asked_twice_it_ends_with_its_worker(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    supervisor(started, run, PAUSE="0.1")
    other = join(started, run)
    await_true(lambda: len(seated(run)) == 2)
    other.terminate()
    time.sleep(0.3)  # two signals at once are one
    other.terminate()
    assert end_of(other)[0] == 130
    await_true(lambda: len(seated(run)) < 2)


def test_a_number_that_the_run_has_not_is_refused(tmp_path: Path, started: Started) -> None:
    run = small_run(tmp_path)
    first = subprocess.Popen(supervisor_command(run, PAUSE="0.1"), env=environment(), process_group=0)
    started.append(first)
    found, said = end_of(join(started, run))
    assert found == 2 and "no process 1 to join a run of 1" in said
