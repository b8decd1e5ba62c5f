"""Which jobs the planner accepts, and how it divides a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.backend import Host, Plan
from jprep.train.run.directory import read_job
from jprep_new_backend.backend import NewBackend
from jprep_new_backend.options import Options

HOST = Host("python", 4, 8 << 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of a GPT-2 with batches of 8 rows."""
    return SuiteRunner(tmp_path_factory.mktemp("run"), "new-backend", {}).prepare("gpt2-clm").run


def plan(run: Path, *, precision: str = "fp32", **options: Any) -> Plan:
    """Return the plan of the run with other options."""
    job = read_job(run)
    train = msgspec.structs.replace(job.train, precision=precision)
    changed = msgspec.structs.replace(job, train=train, options=msgspec.to_builtins(Options(**options)))
    return NewBackend().plan(changed, run, HOST)


def test_a_batch_is_divided_into_micro_batches(run: Path) -> None:
    """The product of processes, micro-batch and accumulation is the batch."""
    assert (plan(run).micro_batch, plan(run).accumulate) == (8, 1)
    assert (plan(run, micro_batch=2).micro_batch, plan(run, micro_batch=2).accumulate) == (2, 4)
    with pytest.raises(ConfigError, match="3"):
        plan(run, micro_batch=3)


def test_jobs_that_the_backend_does_not_support_are_refused(run: Path) -> None:
    """The error names the key of the recipe."""
    with pytest.raises(ConfigError, match="bf16") as error:
        plan(run, precision="bf16")
    assert error.value.where == "train.precision"


def test_threads_are_part_of_the_plan(run: Path) -> None:
    """Sums depend on them."""
    assert plan(run, threads=3).env["OMP_NUM_THREADS"] == "3"
