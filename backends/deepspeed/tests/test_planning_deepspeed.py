"""Plans for one host and for several, and the findings of `check`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Host, Nodes, Plan
from jprep.train.planning import checks as core_checks
from jprep.train.run.directory import read_job
from jprep_deepspeed.backend import DeepSpeed
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning import checks
from jprep_torch.planning import checks as torch_checks
from tests.fakes.trained_run import trained_run

PYTHON = "/environment/bin/python"
CPU, GPUS = Host(PYTHON, 4, 8 << 30), Host(PYTHON, 4, 8 << 30, ("GPU", "GPU"), 1 << 30)
NUMBERS = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("run"))


def plan(run: Path, host: Host, **options: Any) -> Plan:
    chosen = msgspec.to_builtins(Options(**options))
    return DeepSpeed().plan(msgspec.structs.replace(read_job(run), options=chosen), run, host)


def test_a_single_process_has_rank_0(run: Path) -> None:
    found = plan(run, CPU)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 4, 1)
    assert found.argv[:3] == (PYTHON, "-m", "jprep_deepspeed.worker") and found.env.keys() >= NUMBERS


def test_torchrun_starts_one_process_for_each_gpu(run: Path) -> None:
    found = plan(run, GPUS)
    assert (found.processes, found.micro_batch, found.settings["zero_optimization"]["stage"]) == (2, 2, 0)
    assert "--standalone" in found.argv and not NUMBERS & found.env.keys()
    assert (
        found.argv[-2:] == ("--device", "cuda")
        and plan(run, GPUS, gradient_checkpointing=True).argv[-1] == "--gradient-checkpointing"
    )
    ported = plan(run, GPUS, port=1234).argv
    assert "--standalone" not in ported and ported[ported.index("--master-port") + 1] == "1234"


def test_deepspeed_launcher_starts_processes(run: Path) -> None:
    argv = plan(run, CPU, processes=2, launcher="deepspeed").argv
    assert argv[1:3] == ("-m", "deepspeed.launcher.runner")
    assert argv[argv.index("--num_accelerators") + 1] == "2" and argv[argv.index("--master_port") + 1] == "29500"
    assert "--num_accelerators" not in plan(run, GPUS, launcher="deepspeed").argv  # it uses all visible GPUs


def test_offloading_needs_a_stage(run: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(run, CPU, processes=2, stage=0, offload_optimizer="cpu")
    assert "offload_optimizer" in caught.value.what and "stage = 1, 2 or 3" in caught.value.fix
    with pytest.raises(ConfigError, match="offload_param"):
        plan(run, CPU, processes=2, stage=2, offload_param="cpu")
    stages = [plan(run, CPU, **options).settings["zero_optimization"]["stage"] for options in (
        {"offload_optimizer": "cpu"}, {"offload_param": "cpu"})]  # fmt: skip
    assert stages == [1, 3]


def test_options_out_of_range_are_refused(run: Path) -> None:
    for options in ({"processes": 3}, {"processes": 8}, {"micro_batch": 3}, {"micro_batch": -1}, {"gpu": "A100"}):
        with pytest.raises(ConfigError) as caught:
            plan(run, CPU, **options)
        assert caught.value.fix


def test_on_several_hosts_jprep_starts_each_process(run: Path) -> None:
    nodes = Host(PYTHON, 4, 8 << 30, ("GPU", "GPU"), 1 << 30, Nodes(2, gpus=2))
    found = plan(run, nodes)
    assert (found.processes, found.machines, found.micro_batch) == (4, 2, 1)
    assert found.argv[:4] == (PYTHON, "-m", "jprep_deepspeed.worker", "train")
    assert found.target and (found.target.hosts, found.target.count) == (2, 4)
    assert "MASTER_PORT" not in found.env and plan(run, nodes, port=7).env["MASTER_PORT"] == "7"
    assert DeepSpeed().hosts(Options(hosts="slurm")) == "slurm"


@pytest.mark.parametrize(
    ("options", "gpus", "here", "level"),
    [
        ({"device": "cuda"}, "0", 0, "error"), ({}, "0", 1, "error"), ({"device": "cpu"}, "0", 1, "ok"),
        ({}, "1", 1, "ok"), ({"gpu": "40"}, "0", 0, "note"),
    ],
)  # fmt: skip
def test_check_reports_what_would_make_a_run_fail(
    options: dict[str, Any], gpus: str, here: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "_versions", lambda python: f"0.19.8 2.13 5.0 {gpus}")
    monkeypatch.setattr(torch_checks, "accelerators", lambda: ["a GPU"] * here)
    assert DeepSpeed().check(Options(**options))[-1].level == level


def test_check_reports_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        [found] = checks._port(Options(port=port))
        assert str(port) in found.what and found.level == "error" and "port" in found.fix
    assert checks._port(Options()) == []
