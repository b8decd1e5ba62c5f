"""Muon in ZeRO stages 1 to 3: matrices that processes share, killed runs, and a run that torch began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError, JprepError
from jprep.testing.backend_suite.cases import SAVED
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from tests.fakes.muon_run import CASE, assert_golden_muon_run

CPU: dict[str, Any] = {"device": "cpu", "threads": 1}
FOUR, TWO = CPU | {"processes": 4}, CPU | {"processes": 2}
"""In stages 1 and 2, four processes cut the matrices of the case in the middle of rows; two do not cut any."""


@pytest.mark.parametrize("options", [{"stage": 1}, {"stage": 2, "offload_optimizer": "cpu"}], ids=str)
def test_cut_matrices_take_the_same_steps(tmp_path: Path, options: dict[str, Any]) -> None:
    bench = SuiteRunner(tmp_path, "deepspeed", FOUR | options)
    assert_golden_muon_run(bench.train(bench.prepare(CASE), JPREP_FAILPOINT="run.committed@2"))


def test_stage_1_in_bf16_learns_as_well(tmp_path: Path) -> None:
    """DeepSpeed has another optimizer for this stage and precision."""
    bench = SuiteRunner(tmp_path, "deepspeed", FOUR | {"stage": 1})
    prepared = bench.prepare(CASE, precision="bf16")
    assert_golden_muon_run(bench.train(prepared, JPREP_FAILPOINT="run.committed@2"), tolerance=0.02)


def test_a_killed_run_of_stage_3_has_the_bytes_of_an_uninterrupted_one(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "deepspeed", TWO | {"stage": 3})
    whole, killed = (bench.train(bench.prepare(CASE), **env) for env in ({}, {"JPREP_FAILPOINT": "run.committed@2"}))
    assert_golden_muon_run(killed)
    files = {path.name: path.read_bytes() for path in whole.checkpoint().glob("*.safetensors")}
    assert files == {path.name: path.read_bytes() for path in killed.checkpoint().glob("*.safetensors")}
    assert len(files) == 4, "two of each process"


def test_a_run_of_torch_is_continued(tmp_path: Path) -> None:
    try:
        worker_python(load_backend("torch"))
    except JprepError as error:
        pytest.skip(str(error))
    bench = SuiteRunner(tmp_path, "deepspeed", TWO | {"stage": 3})
    assert_golden_muon_run(bench.resumed_from(CASE, "torch", SAVED))


def test_what_deepspeed_cannot_keep_is_refused(tmp_path: Path) -> None:
    files = {"stage": 3, "offload_optimizer": "nvme", "nvme_path": str(tmp_path)}
    bench = SuiteRunner(tmp_path, "deepspeed", TWO | files)
    with pytest.raises(ConfigError, match="not supported with an optimizer state in files"):
        bench.prepare(CASE)
    with pytest.raises(ConfigError, match="no averages of eight bits"):
        bench.prepare("gpt2-clm", optimizer={"kind": "adamw-8bit"})
