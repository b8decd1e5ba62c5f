"""Several processes: on this machine, or on several that meet in the run directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner, stop_after
from jprep.testing.backend_suite.two_hosts import train_on_two_hosts
from jprep.train.hosts.host_launcher import free_port
from jprep_flax.worker import launcher

SHORT = {"steps": 6, "checkpoint": {"every_steps": 2}, "validation": {"every_steps": 3}}


@pytest.mark.soak
def test_hosts_meet_in_the_run_directory_and_resume_together(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "flax", {"device": "cpu"})
    alone = bench.train(bench.prepare("roberta-mlm", **SHORT))
    two = {"processes": 2, "coordinator": f"localhost:{free_port('localhost')}"}
    trained = train_on_two_hosts(bench, "roberta-mlm", two, **SHORT)
    assert [event.step for event in trained.events() if event.kind == "start"] == [0, 2, 4]
    assert list(trained.losses().values()) == pytest.approx(list(alone.losses().values()), rel=1e-5)


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("3", 3), ("-9", 137)])
def test_all_processes_end_if_one_fails(code: str, expected: int) -> None:
    ends = "import os, sys; os.kill(os.getpid(), 9) if sys.argv[1] == '-9' else sys.exit(int(sys.argv[1]))"
    waits = "import time; time.sleep(3600)"
    bad = subprocess.Popen([sys.executable, "-c", ends, code])
    other = subprocess.Popen([sys.executable, "-c", waits if expected else "pass"])
    assert launcher._wait([other, bad]) == expected
    other.kill()
    other.wait()


@pytest.mark.soak
def test_processes_save_and_exit_on_sigterm(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "flax", {"device": "cpu", "processes": 2})
    prepared = bench.prepare("gpt2-clm", steps=1_000_000, validation={}, checkpoint={"every_steps": 0})
    reached = stop_after(bench, prepared, after=3)
    assert reached.checkpoint().name == f"step-{max(reached.losses()):08d}"
