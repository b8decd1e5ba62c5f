"""The signals that stop a run, the names of signals in messages, and ranks that a signal has killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jprep.train.launcher.signals import killed_rank, signal_name, stop_signals
from jprep.train.run.log import LOG, last_log_line

DEEPSPEED = "[launch.py:325:sigkill_handler] ['python', 'worker'] exits with return code = "


def report(*codes: str) -> str:
    """Return what torchrun prints after ranks have failed. It takes the last of them for the first."""
    ranks = [
        f"[{rank}]:\n  host      : a\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code}\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        for rank, code in enumerate(codes)
    ]
    return (
        "E1130 05:48:20.8 7812 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) of python\n"
        "Traceback (most recent call last):\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"{'=' * 60}\nworker FAILED\n{'-' * 60}\nFailures:\n{''.join(ranks[:-1])}{'-' * 60}\n"
        f"Root Cause (first observed failure):\n{ranks[-1]}{'=' * 60}\n"
    )


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGKILL, "SIGKILL"),
        (signal.SIGRTMIN, "SIGRTMIN"),
        (signal.SIGRTMIN + 3, f"signal {signal.SIGRTMIN + 3}"),
    ],
)
def test_every_signal_has_a_name(number: int, name: str) -> None:
    assert signal_name(number) == name


def test_sighup_stops_a_run_unless_it_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert signal.SIGHUP in stop_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert stop_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (report("1 (pid: 7) ", "-9 (pid: 8)  (SIGKILL)"), "rank 1 was killed by SIGKILL"),
        (report("1 (pid: 6) ", "-11 (pid: 7)  (SIGSEGV)", "1 (pid: 8) "), "rank 1 was killed by SIGSEGV"),
        (report("-6 (pid: 6)  (SIGABRT)", "-9 (pid: 7)  (SIGKILL)"), "rank 1 was killed by SIGKILL"),
        (report("1 (pid: 6) ", "-15 (pid: 7)  (SIGTERM)", "-9 (pid: 8)  (SIGKILL)"), "rank 2 was killed by SIGKILL"),
        (report("-6 (pid: 6)  (SIGABRT)", "1 (pid: 7) "), ""),
        (report("-6 (pid: 6)  (SIGABRT)", "-15 (pid: 7)  (SIGTERM)"), "rank 0 was killed by SIGABRT"),
        (report("-15 (pid: 7)  (SIGTERM)", "-15 (pid: 8)  (SIGTERM)"), "rank 0 was killed by SIGTERM"),
        (report("1 (pid: 7) ", "1 (pid: 8) "), ""),
        (f"{DEEPSPEED}-9\n", "a rank was killed by SIGKILL"),
        (f"{DEEPSPEED}1\n", ""),
        ("an exitcode  : -9 in a text", ""),
    ],
)
def test_a_killed_rank_is_the_reason_whatever_the_launcher_takes_for_it(output: str, reason: str) -> None:
    assert killed_rank(output) == reason


def test_the_last_line_of_the_log_is_that_of_a_worker(tmp_path: Path) -> None:
    first = f"step 10\n[rank0]: RuntimeError: Connection closed by peer\n{report('1 (pid: 7) ', '1 (pid: 8) ')}"
    (tmp_path / LOG).write_text(first)
    assert last_log_line(tmp_path) == "[rank0]: RuntimeError: Connection closed by peer"
    (tmp_path / LOG).write_text(f"{first}step 20\n-----\n")
    assert last_log_line(tmp_path) == "step 20"
