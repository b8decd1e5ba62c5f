"""What is left of a process group after the training of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.servers.process import free_port

TRAIN_AND_COUNT_THREADS = """
import contextlib, os, sys
from jprep.train.worker.session import Session
from jprep_torch.worker.__main__ import main

os.environ["RANK"] = "1" if os.fork() else "0"
finish = Session.finish

def count_threads(session):
    names = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            names.append(open(f"/proc/self/task/{task}/comm").read())
    print(sum("gloo" in name for name in names), flush=True)
    finish(session)

Session.finish = count_threads
code = main(["train", sys.argv[1], "--micro-batch", "2", "--device", "cpu"])
if os.environ["RANK"] == "1":
    code = code or os.wait()[1]
os._exit(code and 1)
"""


def test_the_model_does_not_free_the_group(tmp_path: Path) -> None:
    # DDP waits for the threads of a group that it frees, with Python's global lock, which they may need to end.
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1, "processes": 2})
    prepared = bench.prepare("gpt2-clm", steps=8, validation={"every_steps": 0})
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env = {**os.environ, **prepared.plan.env, **group}
    program = [sys.executable, "-c", TRAIN_AND_COUNT_THREADS, str(prepared.run)]
    found = subprocess.run(program, capture_output=True, text=True, timeout=600, env=env)
    assert found.returncode == 0, found.stderr
    assert [int(count) > 0 for count in found.stdout.split()] == [True, True]
