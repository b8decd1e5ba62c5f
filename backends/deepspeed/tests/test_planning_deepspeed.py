"""Plans for one host and for several, and the findings of `check`."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Host, Plan
from jprep.train.planning import checks as core_checks
from jprep.train.run.directory import read_job
from jprep_deepspeed.backend import DeepSpeed
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning import checks
from jprep_deepspeed.planning.hosts import expand_hostlist
from jprep_deepspeed.worker import launcher
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


@pytest.mark.parametrize(
    ("lines", "world"),
    [("a slots=2\nb slots=2\n", 4), ("# ours\n\na slots=1 # one\n", 1), ("a slots=1\r\nb   slots=1", 2)],
)
def test_a_hostfile_lists_hosts_and_slots(run: Path, lines: str, world: int, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(lines)
    found = plan(run, CPU, hosts=str(path))
    assert found.processes == world and not NUMBERS & found.env.keys()
    assert any("pdsh" in note and "/environment" in note for note in found.notes)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("", "no host"), ("a\n", "'a' is not a host"), ("a slots=0\n", "is not a host"),
        ("a slots=x\n", "is not a host"),
        ("a slots=2\na slots=2\n", "duplicate host"), ("a slots=2\nb slots=4\n", "from 2 to 4 slots"),
    ],
)  # fmt: skip
def test_a_malformed_hostfile_is_refused(run: Path, lines: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(lines)
    with pytest.raises(ConfigError, match=what) as caught:
        plan(run, CPU, hosts=str(path))
    assert str(path) in caught.value.where and caught.value.fix
    with pytest.raises(ConfigError, match="cannot be read"):
        plan(run, CPU, hosts=str(tmp_path / "nowhere"))


def test_unequal_hosts_run_fewer_processes(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a slots=2\nb slots=1\n")
    assert plan(run, CPU, hosts=str(path), processes=1).processes == 2
    with pytest.raises(ConfigError, match="b has 1 slots"):
        plan(run, CPU, hosts=str(path), processes=2)


def test_the_launcher_forwards_variables_and_quotes_arguments(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a slots=2\nb slots=2\n")
    found = plan(run, CPU, hosts=str(path))
    assert found.argv[1:3] == ("-m", "jprep_deepspeed.worker.launcher")
    variables = {**found.env, "JPREP_ATTEMPT": "x-0", "JPREP_RESUME": "", "HOME": "/root"}
    line = launcher.runner_command(list(found.argv[3:]), variables, PYTHON)
    worker = line[line.index("env") + 1 :]
    assert line[3:5] == ["--hostfile", str(path)] and "--force_multi" in line
    assert {"JPREP_ATTEMPT=x-0", "JPREP_RESUME=", "OMP_NUM_THREADS=2"} <= set(worker) and "HOME=/root" not in worker
    settings = worker[worker.index("--settings") + 1]
    assert settings.startswith("'") and json.loads(settings[1:-1]) == found.settings  # a shell reads it again
    assert launcher.quote_argument("/a b/$c") == r"/a b/\$c"  # the runner puts it between double quotes


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("gpu1", ["gpu1"]), ("a,b", ["a", "b"]), ("gpu[01-03,7],big", ["gpu01", "gpu02", "gpu03", "gpu7", "big"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]), ("gpu[9-11]-ib", ["gpu9-ib", "gpu10-ib", "gpu11-ib"]),
    ],
)  # fmt: skip
def test_slurm_host_lists_are_expanded(names: str, hosts: list[str]) -> None:
    assert expand_hostlist(names) == hosts


@pytest.mark.parametrize("names", ["", "gpu[1-", "gpu[3-1]", "gpu[a]", "gpu]1["])
def test_malformed_host_lists_are_refused(names: str) -> None:
    with pytest.raises(ConfigError, match="hosts"):
        expand_hostlist(names)


def test_srun_starts_one_task_for_each_process(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[01-02]")
    monkeypatch.setenv("SLURM_JOB_ID", "12003")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    found = plan(run, GPUS, hosts="slurm")
    assert found.argv[:4] == ("srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2") and found.processes == 4
    assert (found.env["MASTER_ADDR"], found.env["MASTER_PORT"]) == ("gpu01", "20003")
    assert not NUMBERS & found.env.keys() and "--kill-on-bad-exit=1" in found.argv
    assert any("srun --nodes=2" in note for note in found.notes)
    assert plan(run, GPUS, hosts="slurm", port=7).env["MASTER_PORT"] == "7"


def test_without_an_allocation_the_error_suggests_salloc(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    with pytest.raises(ConfigError, match="no Slurm allocation") as caught:
        plan(run, GPUS, hosts="slurm")
    assert "salloc --nodes=2 --ntasks-per-node=2 --gpus-per-node=2" in caught.value.fix


@pytest.mark.parametrize(
    ("options", "gpus", "here", "level"),
    [
        ({"device": "cuda"}, "0", 0, "error"), ({}, "0", 1, "error"), ({"device": "cpu"}, "0", 1, "ok"),
        ({}, "1", 1, "ok"), ({"gpu": "40"}, "0", 0, "note"), ({"hosts": "slurm"}, "0", 0, "error"),
    ],
)  # fmt: skip
def test_check_reports_what_would_make_a_run_fail(
    options: dict[str, Any], gpus: str, here: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "_versions", lambda python: f"0.19.8 2.13 5.0 {gpus}")
    monkeypatch.setattr(checks, "accelerators", lambda: ["a GPU"] * here)
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    assert DeepSpeed().check(Options(**options))[-1].level == level


def test_check_reports_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        [found] = checks._port(Options(port=port))
        assert str(port) in found.what and found.level == "error" and "port" in found.fix
    assert checks._port(Options()) == []
