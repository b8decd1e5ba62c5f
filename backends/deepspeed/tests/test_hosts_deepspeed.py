"""Several hosts, emulated on this machine: a fake `srun` starts the tasks here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner

SRUN = f"""\
#!{sys.executable}
import os, subprocess, sys
options = [part for part in sys.argv[1:] if part.startswith("--") and "=" in part]
command = sys.argv[1 + len(options):]
tasks = int(next(part.partition("=")[2] for part in options if part.startswith("--ntasks=")))
def variables(rank):
    return os.environ | {{"SLURM_PROCID": str(rank), "SLURM_LOCALID": "0", "SLURM_NTASKS": str(tasks)}}
started = [subprocess.Popen(command, env=variables(rank)) for rank in range(tasks)]
sys.exit(max(one.wait() for one in started))
"""


def test_a_run_on_two_slurm_nodes_has_the_losses_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(dedent(SRUN))
    srun.chmod(0o755)
    allocation = {"SLURM_JOB_NODELIST": "localhost,127.0.0.1", "SLURM_JOB_ID": str(os.getpid())}
    for name, value in allocation.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("RANK", raising=False)
    bench = SuiteRunner(tmp_path, "deepspeed", {"device": "cpu", "threads": 1, "stage": 2})
    short = {"steps": 12, "validation": {"every_steps": 0}}
    options = {"hosts": "slurm", "processes": 1}
    prepared = bench.prepare("gpt2-clm", options, **short)
    assert prepared.plan.argv[0] == "srun" and prepared.plan.processes == 2
    over_two = bench.train(prepared)
    assert over_two.code == 0, over_two.messages
    alone = bench.trained("gpt2-clm", **short)
    for step, loss in alone.losses().items():
        assert over_two.losses()[step] == pytest.approx(loss, rel=1e-5)
