"""A run ends with the same weights whatever happens to its processes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.launcher.supervisor import supervise
from jprep.train.run import log
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.events import metric_curve, read_events
from jprep.train.run.ranks import live_ranks, signal_ranks
from jprep.train.run.resume import checkpoint_to_resume
from tests.conftest import environment
from tests.fakes.small_run import await_true, plan_of, small_run, supervisor_command, weights

MOMENTS, SOAK = 5, 50
PAUSE = "0.01"
PATIENT = (
    "import functools; from jprep.train.launcher import supervisor\n"
    "supervisor.hold_lock = functools.partial(supervisor.hold_lock, timeout=600)\n"
)
"""Lets a supervisor wait for another one as long as that takes: on a busy machine a run takes longer than 5 s."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of an uninterrupted run."""
    run = small_run(tmp_path_factory.mktemp("uninterrupted"))
    assert supervise(run, plan_of(run)) == 0
    return weights(run)


def start(started: list[subprocess.Popen[bytes]], run: Path, **env: str) -> subprocess.Popen[bytes]:
    command = supervisor_command(run, **{"PAUSE": PAUSE} | env)
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, process_group=0)
    started.append(process)
    return process


def kinds(run: Path) -> list[str]:
    return [event.kind for event in read_events(run)]


def steps_saved(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def assert_nothing_partial(run: Path) -> None:
    for folder in (run / "checkpoints").glob("step-*"):
        assert json.loads((folder / "COMMIT.json").read_bytes())["files"].keys() == {"weights.npy", "momentum.npy"}


def test_a_last_checkpoint_that_is_always_damaged_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, said = small_run(tmp_path, max_restarts=2), list[str]()

    def damaged_first(*of: Any) -> Checkpoint | None:
        for path in (run / "checkpoints").glob("step-00000060/weights.npy"):
            path.write_bytes(b"x")
        return checkpoint_to_resume(*of)

    monkeypatch.setattr("jprep.train.launcher.supervisor.checkpoint_to_resume", damaged_first)
    assert supervise(run, plan_of(run), say=said.append) == 1
    assert kinds(run).count("start") == 4 and "the last checkpoint was damaged every time" in said[-1]


def test_an_uninterrupted_run(tmp_path: Path, uninterrupted: str) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run)) == 0
    assert weights(run) == uninterrupted
    assert steps_saved(run) == ["step-00000050", "step-00000060"]
    assert kinds(run).count("log") == 12 and kinds(run)[0] == "start" and kinds(run)[-1] == "end"
    assert kinds(run).count("end") == 1
    steps, losses = metric_curve(read_events(run))
    assert steps == list(range(5, 61, 5)) and losses[-1] < losses[0]
    assert (run / "tensorboard").is_dir() and "numpy" in json.loads((run / "env.json").read_bytes())["packages"]
    before = (run / "events.jsonl").read_bytes()
    assert supervise(run, plan_of(run)) == 0  # nothing is left to do
    assert (run / "events.jsonl").read_bytes() == before


def killed_at_random(seed: int, run: Path, started: list[subprocess.Popen[bytes]]) -> None:
    """Kill the supervisor, the worker or both, at some moments; then let it finish."""
    chance = random.Random(seed)
    for _ in range(2):
        process = start(started, run)
        time.sleep(chance.uniform(0.2, 1.8))
        whom = chance.choice(["parent", "worker", "both"])
        if whom != "parent" and (run / "ranks").exists():
            signal_ranks(run, signal.SIGKILL)
        if whom != "worker":
            process.kill()
            process.wait()
        else:
            assert process.wait(600) == 0
    assert start(started, run).wait(600) == 0


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_killed_at_random_moments(
    seed: int, tmp_path: Path, uninterrupted: str, started: list[subprocess.Popen[bytes]]
) -> None:
    run = small_run(tmp_path)
    killed_at_random(seed, run, started)
    assert weights(run) == uninterrupted
    assert steps_saved(run) == ["step-00000050", "step-00000060"]
    assert live_ranks(run) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(MOMENTS, MOMENTS + SOAK))
def test_killed_at_many_random_moments(
    seed: int, tmp_path: Path, uninterrupted: str, started: list[subprocess.Popen[bytes]]
) -> None:
    run = small_run(tmp_path)
    killed_at_random(seed, run, started)
    assert weights(run) == uninterrupted
    assert_nothing_partial(run)


@pytest.mark.parametrize("place", ["run.filled@2", "run.hashed", "run.committed@2", "run.renamed", "run.unnamed"])
def test_killed_at_every_place_of_a_checkpoint(place: str, tmp_path: Path, uninterrupted: str) -> None:
    run = small_run(tmp_path, max_restarts=0)
    code = supervise(run, plan_of(run, JPREP_FAILPOINT=f"{place}=die"), say=lambda text: None, backoff=0.01)
    assert code in (0, 1)  # progress between two deaths gives the count back
    assert_nothing_partial(run)
    assert not list((run / "checkpoints").glob("partial-*"))
    assert supervise(run, plan_of(run)) == 0
    assert weights(run) == uninterrupted


def test_a_full_disk_ends_the_run_and_keeps_checkpoints(tmp_path: Path, uninterrupted: str) -> None:
    run, said = small_run(tmp_path), []
    plan = plan_of(run, JPREP_FAILPOINT="run.hashed@3=enospc")
    assert supervise(run, plan, say=said.append) == 3
    assert "the disk is full" in said[-1]
    assert steps_saved(run) == ["step-00000010", "step-00000020"]
    assert "restart" not in kinds(run)
    assert supervise(run, plan_of(run)) == 0
    assert weights(run) == uninterrupted


def test_a_disk_full_while_logging_ends_the_run_and_keeps_checkpoints(tmp_path: Path, uninterrupted: str) -> None:
    run, said = small_run(tmp_path), []
    assert supervise(run, plan_of(run, JPREP_FAILPOINT="run.event@7=enospc"), say=said.append) == 3
    assert "the disk is full" in said[-1] and "events.jsonl" in said[-1]
    assert steps_saved(run) == ["step-00000010"] and "restart" not in kinds(run)
    assert supervise(run, plan_of(run)) == 0
    assert weights(run) == uninterrupted


def test_a_disk_too_full_for_the_error_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.train.run.checkpoints._SPARE", 1 << 62)
    run, said = small_run(tmp_path), []
    mute = type(plan_of(run))((sys.executable, "-c", "raise SystemExit(3)"), {}, 1, 1, 1, 0)
    assert supervise(run, mute, say=said.append) == 3
    assert "the disk is full" in said[-1] and "free some space" in said[-1]


def test_a_disk_full_for_the_supervisor_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path)

    def full(*arguments: object) -> None:
        raise MachineError("the disk is full", where=str(run))

    monkeypatch.setattr("jprep.train.launcher.supervisor.record_event", full)
    with pytest.raises(MachineError, match="the disk is full"):
        supervise(run, plan_of(run, CRASH_AT="15"), say=lambda text: None)
    assert live_ranks(run) == [] and steps_saved(run) == ["step-00000010"]


def test_a_run_directory_may_have_any_path(tmp_path: Path) -> None:
    place = tmp_path / "実行 一号's $HOME; 🗻"
    run = small_run(place, steps=10)
    assert supervise(run, plan_of(run)) == 0
    assert steps_saved(run) == ["step-00000010"]


@pytest.mark.parametrize(
    ("env", "code", "word"), [("REFUSE_AT", 2, "a restart does not"), ("NAN_AT", 4, "step-00000010")]
)
def test_a_fatal_error_is_not_retried(env: str, code: int, word: str, tmp_path: Path) -> None:
    run, said = small_run(tmp_path), []
    assert supervise(run, plan_of(run, **{env: "15"}), say=said.append) == code
    assert word in said[-1] and len(said) == 1
    assert steps_saved(run) == ["step-00000010"]
    assert kinds(run).count("start") == 1


def test_a_worker_that_dies_without_progress_is_given_up(tmp_path: Path) -> None:
    run, said = small_run(tmp_path, max_restarts=2), []
    assert supervise(run, plan_of(run, CRASH_AT="15"), say=said.append, backoff=0.01) == 1
    # The first start saved step 10; two more did nothing. The third death is one too many.
    assert kinds(run).count("restart") == 2
    assert "code 7" in said[-1] and "a worker begins after step 10" in said[-1]


def test_a_hung_worker_is_restarted(tmp_path: Path, uninterrupted: str) -> None:
    # Longer than a worker takes to start on a busy machine: a slow start would count as a hang.
    run, said = small_run(tmp_path, silent_minutes=8 / 60), []
    assert supervise(run, plan_of(run, HANG_AT="33"), say=said.append, backoff=0.01) == 0
    assert any("no sign of life" in line and "from step 30" in line for line in said)
    assert weights(run) == uninterrupted


def test_a_worker_that_hangs_after_its_last_step_is_killed(
    tmp_path: Path, uninterrupted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jprep.train.launcher.supervisor._EXIT_SECONDS", 0.5)
    run, said = small_run(tmp_path, max_restarts=0), list[str]()
    assert supervise(run, plan_of(run, HANG_AT="61"), say=said.append) == 0
    assert said == ["the worker is killed: its steps are done, and it showed no sign of life for 0.5 s"]
    assert kinds(run).count("start") == 1 and kinds(run)[-1] == "end"
    assert live_ranks(run) == [] and weights(run) == uninterrupted


def test_on_a_signal_it_saves_and_the_same_call_resumes(
    tmp_path: Path, uninterrupted: str, started: list[subprocess.Popen[bytes]]
) -> None:
    run = small_run(tmp_path)
    process = start(started, run, PAUSE="0.1")
    await_true(lambda: "checkpoint" in kinds(run))
    process.send_signal(signal.SIGTERM)
    assert process.wait(600) == 130
    events = read_events(run)
    assert events[-1].kind == "signal" and events[-2].kind == "checkpoint"
    assert events[-1].step == events[-2].step < 60
    assert start(started, run).wait(600) == 0
    assert weights(run) == uninterrupted


def test_of_several_reasons_to_give_up_the_first_counts(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from jprep.train.run.events import record_event\n"
    code += "for code, words in ((2, 'the cause'), (3, 'what came of it')):\n"
    code += "    record_event(Path(sys.argv[1]), 'end', 0, {'code': code}, words)\nsys.exit(1)"
    run, said = small_run(tmp_path), list[str]()
    plan = msgspec.structs.replace(plan_of(run), argv=(sys.executable, "-c", code, str(run)))
    assert supervise(run, plan, say=said.append) == 2
    assert "the run failed: the cause" in said[-1]


def test_on_a_second_signal_it_stops_at_once(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    run = small_run(tmp_path)
    process = start(started, run, PAUSE="0.2", IGNORE="1")
    await_true(lambda: "checkpoint" in kinds(run))
    [worker] = live_ranks(run)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130
    assert not Path(f"/proc/{worker}").exists()


def test_workers_exit_when_the_supervisor_is_killed(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    run = small_run(tmp_path)
    process = start(started, run, PAUSE="0.5")
    await_true(lambda: "start" in kinds(run))
    assert len(live_ranks(run)) == 1
    process.kill()
    process.wait()
    await_true(lambda: not live_ranks(run))


def test_one_supervisor_at_a_time(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    run = small_run(tmp_path)
    process = start(started, run, PAUSE="2")
    await_true(lambda: "start" in kinds(run))
    with pytest.raises(MachineError, match="another jprep is running"):
        supervise(run, plan_of(run))
    assert process.poll() is None


def test_two_simultaneous_commands_train_once(
    tmp_path: Path, uninterrupted: str, started: list[subprocess.Popen[bytes]]
) -> None:
    run = small_run(tmp_path)
    python, option, code, *more = supervisor_command(run, PAUSE=PAUSE)
    both = [subprocess.Popen([python, option, PATIENT + code, *more], env=environment()) for _ in range(2)]
    started += both
    assert [process.wait(600) for process in both] == [0, 0]  # the second waits a moment, and finds it done
    assert kinds(run).count("start") == kinds(run).count("end") == 1
    assert weights(run) == uninterrupted


def test_resume_from_a_step(tmp_path: Path, uninterrupted: str) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run)) == 0
    with pytest.raises(ConfigError, match="no checkpoint of step 13"):
        supervise(run, plan_of(run), resume_step=13)
    assert supervise(run, plan_of(run), resume_step=50) == 0
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0, 50]
    assert supervise(run, plan_of(run), resume_step=0) == 0
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0, 50, 0]
    assert steps_saved(run) == ["step-00000050", "step-00000060"]  # nothing lies aside any more
    assert kinds(run).count("end") == 3
    assert weights(run) == uninterrupted


def test_a_damaged_checkpoint_is_set_aside(
    tmp_path: Path, uninterrupted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(tmp_path)
    assert supervise(run, plan_of(run)) == 0
    path = run / "checkpoints" / "step-00000060" / "weights.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert supervise(run, plan_of(run)) == 0
    assert "step-00000060 is damaged" in capsys.readouterr().err
    assert [event.note for event in read_events(run) if event.kind == "damaged"]
    assert weights(run) == uninterrupted


def test_the_log_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LOG_BYTES", 1000)
    monkeypatch.setattr(log, "_KEPT", 10)
    path = tmp_path / "log.txt"
    path.write_bytes(b"a" * 1000)
    log.cut_log(tmp_path)
    assert path.stat().st_size == 1000
    path.write_bytes(b"a" * 1000 + b"b" * 10)
    log.cut_log(tmp_path)
    assert path.read_bytes() == b"[jprep: 1000 bytes were removed here]\n" + b"b" * 10


def test_a_missing_command_is_an_error(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    plan = plan_of(run)
    broken = type(plan)(("/no/such/python",), {}, 1, 1, 1, 0)
    with pytest.raises(MachineError, match="cannot be started"):
        supervise(run, broken)
