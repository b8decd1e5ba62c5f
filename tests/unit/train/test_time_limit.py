"""SIGUSR1 before training has begun: the process ends with code 75, and its job is requeued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep.train.launcher.signals import stop_signals
from jprep.train.launcher.stop_requests import StopRequests
from jprep.train.launcher.time_limit import (
    TimeLimit,
    catch_time_limit,
    end_at_time_limit,
    end_early,
    ignore_time_limit,
)
from tests.conftest import COMMAND, environment

WHILE_IMPORTING = """
import os, signal, sys
import jprep.cli
os.kill(os.getpid(), signal.SIGUSR1)
import jprep.cli.main
jprep.cli.main.main()
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which a stand-in for scontrol writes its arguments, in a job that jprep submitted."""
    program, told = tmp_path / "bin" / "scontrol", tmp_path / "told"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{told}"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    for name, value in {"PATH": path, "JPREP_REQUEUE": "slurm", "SLURM_JOB_ID": "12"}.items():
        monkeypatch.setenv(name, value)
    return told


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore how this process handles signals."""
    before = {number: signal.getsignal(number) for number in stop_signals()}
    for name in ("is_caught", "is_reached"):
        monkeypatch.setattr(f"jprep.train.launcher.time_limit._State.{name}", False)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def train(recipe: Path, *, early: bool = False) -> subprocess.Popen[str]:
    start = [sys.executable, "-c", WHILE_IMPORTING] if early else [COMMAND]
    return subprocess.Popen([*start, "train", str(recipe)], env=environment(), stderr=subprocess.PIPE, text=True)


def test_while_the_command_line_is_imported(tmp_path: Path, job: Path) -> None:
    process = train(tmp_path / "recipe.toml", early=True)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 75, said
    assert said == "jprep: the time limit is near: ended before all was done; job 12 was requeued\n"
    assert job.read_text() == "requeue 12\n"


def test_outside_of_a_job_nothing_is_requeued(tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPREP_REQUEUE")
    process = train(tmp_path / "recipe.toml", early=True)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 75 and "the same command continues" in said and not job.exists()


def test_while_the_run_is_prepared(tmp_path: Path, job: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    os.mkfifo(recipe)
    process = train(recipe)
    with recipe.open("w"):  # waits for its reader
        process.send_signal(signal.SIGUSR1)
    said = process.communicate(timeout=600)[1]  # its reading has ended: the signal may have come just before it
    assert process.returncode == 75 and "job 12 was requeued" in said and "Traceback" not in said
    assert job.read_text() == "requeue 12\n"


def test_a_swallowed_end_is_repeated_before_training(
    job: Path, handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    catch_time_limit()
    end_at_time_limit()
    with pytest.raises(TimeLimit):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert not job.exists()  # a caller that swallows it goes on, and its job is not requeued at its end
    with pytest.raises(TimeLimit):
        end_at_time_limit()
    assert end_early() == 75 and job.read_text() == "requeue 12\n"
    assert "ended before all was done; job 12 was requeued" in capsys.readouterr().err


def test_after_the_last_step_the_signal_is_ignored(job: Path, handlers: None) -> None:
    end_at_time_limit()
    ignore_time_limit()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert not job.exists()


@pytest.mark.parametrize(("first", "second"), [(signal.SIGUSR1, signal.SIGTERM), (signal.SIGTERM, signal.SIGUSR1)])
def test_the_first_signal_decides(first: signal.Signals, second: signal.Signals, handlers: None) -> None:
    with StopRequests() as requests:
        for number in (first, second):
            os.kill(os.getpid(), number)
    assert requests.count == 2 and requests.time_limit == (first is signal.SIGUSR1)
