"""Plans for different machines and options, and the findings of `check`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from jprep.errors import ConfigError
from jprep.train.backend import Host, Nodes, Plan
from jprep.train.planning import checks as core_checks
from jprep.train.planning import machine
from jprep.train.run.directory import read_job
from jprep_torch.backend import Torch
from jprep_torch.options import Options
from jprep_torch.planning import checks, layout, xla
from jprep_torch.worker import __main__ as worker
from jprep_torch.worker import launcher
from tests.fakes.trained_run import trained_run

CPU, GPUS = Host("python", 4, 8 << 30), Host("python", 4, 8 << 30, ("GPU", "GPU"), 1 << 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("run"))


def plan(run: Path, host: Host, precision: str = "fp32", **options: Any) -> Plan:
    job = read_job(run)
    train = msgspec.structs.replace(job.train, precision=precision)
    chosen = msgspec.to_builtins(Options(**options))
    return Torch().plan(msgspec.structs.replace(job, train=train, options=chosen), run, host)


def test_a_single_process_has_rank_0(run: Path) -> None:
    found = plan(run, CPU)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 4, 1)
    assert found.env["OMP_NUM_THREADS"] == "4"
    assert {found.env["RANK"], found.env["LOCAL_RANK"], found.env["WORLD_SIZE"]} == {"0", "1"}


def test_torchrun_starts_one_process_for_each_gpu(run: Path) -> None:
    found = plan(run, GPUS)
    assert (found.processes, found.micro_batch) == (2, 2)
    assert "torch.distributed.run" in found.argv and found.argv[-1] == "cuda"
    assert "RANK" not in found.env and found.env["CUBLAS_WORKSPACE_CONFIG"]


def test_on_several_hosts_jprep_starts_each_process(run: Path) -> None:
    nodes = msgspec.structs.replace(GPUS, nodes=Nodes(2))
    found = plan(run, nodes)
    assert (found.processes, found.machines, found.micro_batch) == (4, 2, 1)
    assert found.argv[:4] == ("python", "-m", "jprep_torch.worker", "train")
    assert found.target and (found.target.hosts, found.target.count) == (2, 4)
    alone = plan(run, msgspec.structs.replace(CPU, nodes=Nodes(1)))
    assert (alone.processes, alone.machines, alone.micro_batch) == (1, 1, 4)
    with pytest.raises(ConfigError, match="device xla does not support"):
        plan(run, nodes, device="xla")


def test_a_model_is_sharded_among_all_hosts(run: Path) -> None:
    nodes = msgspec.structs.replace(GPUS, nodes=Nodes(2))
    one, two = (plan(run, host, shard="yes", micro_batch=1) for host in (GPUS, nodes))
    assert two.memory < one.memory


def test_a_single_process_shards_nothing(run: Path) -> None:
    alone = plan(run, CPU, shard="yes")
    assert "--shard" not in alone.argv and not alone.divided
    assert plan(run, GPUS, shard="yes", micro_batch=1).divided


def test_a_model_that_does_not_fit_is_sharded_but_not_its_half_precision_copies(run: Path) -> None:
    parameters = read_job(run).parameters
    small = msgspec.structs.replace(GPUS, device_memory=16 * parameters)
    assert "--shard" in plan(run, small).argv and "--shard" not in plan(run, GPUS).argv
    whole, half = (
        plan(run, GPUS, "bf16", shard="no", micro_batch=1),
        plan(run, GPUS, "bf16", shard="yes", micro_batch=1),
    )
    assert whole.memory - half.memory == 16 * parameters // 2


def _set_tpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module in (xla, machine):
        monkeypatch.setattr(module, "tpu_count", lambda: count)


def test_one_process_drives_all_xla_devices(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _set_tpus(monkeypatch, 0)
    found = plan(run, CPU, device="xla", devices=4)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 4, 1)
    assert (found.env["PJRT_DEVICE"], found.env["CPU_NUM_DEVICES"]) == ("CPU", "4")
    for wrong, said in (
        ({"devices": 3}, "divided"),
        ({"processes": 2}, "one process"),
        ({"compile": True}, "one process"),
    ):
        with pytest.raises(ConfigError, match=said):
            plan(run, CPU, device="xla", **wrong)
    _set_tpus(monkeypatch, 4)
    assert plan(run, CPU, device="xla").env["PJRT_DEVICE"] == "TPU"


def test_each_xla_host_has_one_process(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _set_tpus(monkeypatch, 2)
    found = plan(run, CPU, device="xla", hosts=2)
    assert (found.processes, found.machines, found.micro_batch, found.accumulate) == (2, 2, 2, 1)
    assert {"--devices", "4", "--hosts", "2"} <= set(found.argv) and found.env["WORLD_SIZE"] == "1"
    assert found.argv[found.argv.index("--micro-batch") + 1] == "4"
    assert found.notes[-1].endswith(f"python -m jprep.train.launcher.multihost {run} NUMBER")
    with pytest.raises(ConfigError, match="TPU slice"):
        plan(run, CPU, device="cpu", hosts=2)


def test_each_torch_tpu_device_has_one_process(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "tpu_count", lambda: 4)
    found = plan(run, CPU, device="tpu")
    assert (found.processes, found.micro_batch) == (4, 1) and "not yet tested" in found.notes[0]
    assert found.argv[:5] == ("python", "-m", "jprep_torch.worker.launcher", "4", "jprep_torch.worker")
    assert "jprep_torch.worker.launcher" not in plan(run, CPU, device="tpu", processes=1).argv
    assert plan(run, CPU, device="tpu", processes=1, memory=1e-6).micro_batch == 1, (
        "the most that fits the given memory"
    )
    wrongs = (
        ({"shard": "yes"}, "all weights on each device"),
        ({"hosts": 2}, "TPU slice"),
        ({"memory": -1}, "0 or more"),
    )
    for wrong, said in wrongs:
        with pytest.raises(ConfigError, match=said):
            plan(run, CPU, device="tpu", **wrong)
    with pytest.raises(ConfigError, match="fp32 or bf16"):
        plan(run, CPU, "fp16", device="tpu")


def test_too_few_tpus_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["2", "jprep_torch.worker"]) == 3
    assert "the plan has 2" in (said := capsys.readouterr().err) and "fix:" in said


def test_the_launcher_prepares_torch_tpu_before_it_starts_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module that torch_tpu adds to PyTorch is replaced by a fake."""
    ready: list[int] = []

    def prepare(nnodes: int, nproc_per_node: int) -> None:
        if nproc_per_node == 3:
            raise RuntimeError("no such topology")
        ready.append(nproc_per_node)

    played = SimpleNamespace(distributed=SimpleNamespace(set_tpu_launch_env=prepare))
    monkeypatch.setattr(torch, "tpu", played, raising=False)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 4)
    monkeypatch.setattr(launcher, "torchrun", lambda words: ready.append(words))
    assert launcher.main(["4", "jprep_torch.worker", "train"]) == 0
    assert ready == [4, ["--standalone", "--nproc-per-node", "4", "-m", "jprep_torch.worker", "train"]]
    assert launcher.main(["3", "jprep_torch.worker", "train"]) == 3 and len(ready) == 2
    assert "no such topology" in capsys.readouterr().err


def test_xla_and_tpu_have_their_own_environments() -> None:
    devices = ("auto", "cpu", "cuda", "xla", "tpu")
    names = {device: Torch().environment(Options(device=device)).name for device in devices}
    assert names == {"auto": "torch", "cpu": "torch", "cuda": "torch", "xla": "fairseq-xla", "tpu": "torch-tpu"}


@pytest.mark.parametrize(
    ("device", "gpus", "level"),
    [("auto", "0", "error"), ("cpu", "0", "ok"), ("auto", "1", "ok"), ("tpu", "0", "error"), ("tpu", "4", "ok")],
)
def test_check_reports_devices_that_pytorch_does_not_find(
    device: str, gpus: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "_versions", lambda python, needs: f"2.9 5.0 {gpus}")
    monkeypatch.setattr(checks, "accelerators", lambda: ["a GPU"])
    assert Torch().check(Options(device=device))[-1].level == level


def test_missing_devices_are_a_note_in_a_plan_for_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "_versions", lambda python, needs: "2.9 5.0 0")
    monkeypatch.setattr(checks, "accelerators", list)
    monkeypatch.setattr(checks, "tpu_count", lambda: 0)
    assert Torch().check(Options(device="cuda", memory=40))[-1].level == "note"
    assert Torch().check(Options(device="cuda"))[-1].level == "error"


def test_running_out_of_memory_in_the_first_step_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full:
        def __init__(self, *_: Any, **__: Any) -> None:
            raise torch.OutOfMemoryError("tried to allocate 80 GiB")

    monkeypatch.setattr(worker, "TrainState", Full)
    for flag in ("--micro-batch", "--rows"):  # the second in plans of earlier versions
        assert worker.main(["train", str(trained_run(tmp_path / flag)), flag, "4", "--device", "cpu"]) == 3
        assert "80 GiB" in (said := capsys.readouterr().err) and "train.backend.torch." in said
