"""Ctrl-C and SIGTERM: running tasks are committed, and the command that resumes is printed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, digests
from tests.crash.conftest import Work, await_true, children


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ctrl_c_finishes_running_tasks(
    number: signal.Signals, workers: int, work: Work, uninterrupted: dict[str, str]
) -> None:
    process = work.start_and_hold(workers)
    process.send_signal(number)
    await_finishing(process)
    work.release()
    _, said = process.communicate(timeout=PATIENCE)
    committed = work.receipts()
    assert process.returncode == 130
    assert said.rstrip().endswith("to resume:  jprep " + " ".join(work.command(workers)))
    assert 1 <= len(committed) < 6
    assert not list(work.folder.rglob("*.tmp-*"))
    work.finish(workers)
    assert digests(work.folder) == uninterrupted


def test_workers_ignore_ctrl_c_of_the_process_group(work: Work) -> None:
    process = work.start_and_hold(2)
    await_true(lambda: len(children(process.pid)) == 2)
    await_true(lambda: all(ignores(worker, signal.SIGINT) for worker in children(process.pid)))
    os.killpg(process.pid, signal.SIGINT)
    await_finishing(process)
    work.release()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert work.receipts()


def await_finishing(process: subprocess.Popen[str]) -> None:
    """Read what a build says until it has noticed the first signal."""
    assert process.stderr
    while "finishing the tasks that are running here" not in (line := process.stderr.readline()):
        assert line, "it ended"


def ignores(process: int, number: signal.Signals) -> bool:
    """Return whether a process ignores a signal."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    [mask] = [line.split()[1] for line in lines if line.startswith("SigIgn")]
    return bool(int(mask, 16) >> number - 1 & 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_second_ctrl_c_stops_at_once(workers: int, work: Work, uninterrupted: dict[str, str]) -> None:
    process = work.start(workers, PAUSE="5")  # for each of some thirty documents
    await_true((work.folder / ".state" / "documents" / "stage.json").exists)
    process.send_signal(signal.SIGINT)
    await_finishing(process)  # two signals at once would be one
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "to resume:" in said
    assert "Traceback" not in said
    work.finish(workers)
    assert digests(work.folder) == uninterrupted
