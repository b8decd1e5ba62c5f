"""The layout of a job on a machine, and what the planner finds there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Host, Nodes, Plan
from jprep.train.planning import checks as shared_checks
from jprep.train.planning import machine
from jprep.train.run.directory import read_job
from jprep_flax.backend import Flax
from jprep_flax.options import Options
from jprep_flax.planning import checks
from jprep_flax.planning.layout import Layout
from tests.fakes.trained_run import trained_run

CPU, GPUS = Host("python", 4, 8 << 30), Host("python", 4, 8 << 30, ("GPU", "GPU"), 1 << 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("run"))


def plan(run: Path, host: Host = CPU, *, batch: int = 8, model: dict[str, Any] | None = None, **options: Any) -> Plan:
    job = read_job(run)
    train = msgspec.structs.replace(job.train, batch=batch)
    chosen = msgspec.to_builtins(Options(**options))
    changed = msgspec.structs.replace(job, train=train, options=chosen, model=job.model | (model or {}))
    return Flax().plan(changed, run, host)


def mesh(found: Plan) -> tuple[int, ...]:
    return tuple(found.settings["mesh"])


def test_one_process_drives_all_devices(run: Path) -> None:
    found = plan(run, GPUS)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 8, 1)
    assert mesh(found) == (2, 1, 1) and found.env["JAX_PLATFORMS"] == "cuda"
    assert "jprep_flax.worker" in found.argv and "GLIBC_TUNABLES" not in found.env
    layout_of_worker = msgspec.json.decode(found.argv[-1], type=Layout)
    assert msgspec.to_builtins(layout_of_worker) == found.settings


def test_without_an_accelerator_the_plan_uses_one_cpu(run: Path) -> None:
    found = plan(run)
    assert (mesh(found), found.micro_batch, found.env["JAX_PLATFORMS"]) == ((1, 1, 1), 8, "cpu")


def test_a_cpu_has_large_pages_unless_the_user_sets_malloc(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert plan(run).env["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    assert plan(run).env["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1"


def test_a_launcher_starts_processes_that_divide_the_devices(run: Path) -> None:
    found = plan(run, GPUS, processes=2, micro_batch=2)
    assert (found.processes, found.machines, found.micro_batch, found.accumulate) == (2, 1, 2, 2)
    assert found.settings["devices"] == 1 and "jprep_flax.worker.launcher" in found.argv


def test_each_of_several_machines_has_a_process_and_the_plan_has_its_command(run: Path) -> None:
    found = plan(run, GPUS, processes=4, coordinator="10.0.0.1:9876")
    assert (found.processes, found.machines, found.micro_batch) == (4, 4, 2) and "jprep_flax.worker" in found.argv
    assert "NUMBER is 1 to 3" in found.notes[-1] and found.notes[-1].endswith(
        f"jprep.train.launcher.multihost {run} NUMBER"
    )


def test_on_several_hosts_jprep_starts_each_process(run: Path) -> None:
    nodes = msgspec.structs.replace(GPUS, nodes=Nodes(2))
    found = plan(run, nodes)
    assert (found.processes, found.machines, found.micro_batch, mesh(found)) == (2, 2, 4, (4, 1, 1))
    assert "jprep_flax.worker" in found.argv and found.settings["per_host"] == 1
    two = plan(run, nodes, processes=2)
    assert (two.processes, two.machines, two.settings["devices"]) == (4, 2, 1)
    assert two.target and (two.target.hosts, two.target.count) == (2, 4)
    with pytest.raises(ConfigError, match="and a coordinator are given"):
        plan(run, nodes, processes=2, coordinator="10.0.0.1:9876")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (8, 1, 1)),
        ({"fsdp": 8}, (1, 8, 1)),
        ({"tensor": 2}, (4, 1, 2)),
        ({"data": 2, "fsdp": 2, "tensor": 2}, (2, 2, 2)),
        ({"data": 2, "fsdp": 4}, (2, 4, 1)),
    ],
)
def test_the_axis_data_uses_the_remaining_devices(
    options: dict[str, int], expected: tuple[int, ...], run: Path
) -> None:
    found = plan(run, devices=8, **options)
    assert mesh(found) == expected
    assert found.micro_batch * found.accumulate * found.processes == 8


def test_the_micro_batch_is_that_of_each_shard(run: Path) -> None:
    found = plan(run, devices=4, tensor=2, micro_batch=1, batch=12)
    assert (found.micro_batch, found.accumulate) == (2, 6)


def test_weights_are_sharded_if_they_would_not_fit(run: Path) -> None:
    whole = plan(run, GPUS)
    small = msgspec.structs.replace(GPUS, device_memory=16 * read_job(run).parameters)
    assert mesh(plan(run, small)) == (1, 2, 1)
    assert plan(run, small, micro_batch=4).memory < whole.memory


@pytest.mark.parametrize(
    ("options", "words", "fix"),
    [
        ({"devices": 3}, "8 rows cannot be divided among 3", "multiple of 3"),
        ({"devices": 8, "data": 3}, "cannot be divided into data 3", "product is 8"),
        ({"devices": 4, "tensor": 4}, "num_attention_heads is 2 and cannot be divided by tensor 4", "tensor = 2"),
        ({"devices": 3, "fsdp": 3, "batch": 9}, "hidden_size is 16 and cannot be divided by fsdp 3", "fsdp = 1"),
        ({"micro_batch": 3}, "micro-batch of 3 rows", "divisor of 8"),
        ({"processes": 2, "tensor": 2, "devices": 1}, "cannot be divided among 2 processes", "rows of its own"),
        ({"model": {"model_type": "t5"}}, "no model 't5'", "gpt2"),
        ({"micro_batch": -1}, "0 or more", "0 to let jprep choose"),
    ],
)
def test_indivisible_sizes_are_refused_with_a_fix(options: dict[str, Any], words: str, fix: str, run: Path) -> None:
    with pytest.raises(ConfigError) as error:
        plan(run, **options)
    assert words in error.value.what and fix in error.value.fix


def test_gpus_that_cannot_be_divided_among_processes_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="2 devices cannot be divided among 4 processes"):
        plan(run, GPUS, processes=4)


def test_embeddings_are_padded_for_a_tpu_with_a_note(run: Path) -> None:
    ids = read_job(run).model["vocab_size"]
    found = plan(run, device="tpu", devices=1)
    assert found.settings["vocabulary"] % 128 == 0 and 0 < found.settings["vocabulary"] - ids < 128
    assert any("not exported" in note for note in found.notes)
    assert plan(run).settings["vocabulary"] == ids


def test_the_plan_describes_its_mesh(run: Path) -> None:
    assert plan(run, devices=8, tensor=2).notes[0] == "a mesh of 8 CPU devices: data 4, tensor 2"
    assert plan(run).notes == ("one CPU device",)


@pytest.mark.parametrize(
    ("options", "divided"),
    [({"fsdp": 2}, False), ({"fsdp": 4}, True), ({"fsdp": 2, "tensor": 2}, True), ({"data": 4}, False)],
)
def test_a_plan_says_whether_checkpoints_are_written_in_pieces(
    options: dict[str, int], divided: bool, run: Path
) -> None:
    assert plan(run, processes=2, devices=2, **options).divided == divided


@pytest.mark.parametrize(
    ("device", "found", "level"),
    [
        ("auto", "1 cpu", "error"),
        ("gpu", "1 cpu", "error"),
        ("tpu", "1 cpu", "error"),
        ("cpu", "1 cpu", "ok"),
        ("auto", "2 gpu", "ok"),
    ],
)
def test_check_reports_a_device_that_jax_cannot_use(
    device: str, found: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "probe_output", lambda python, code: f"0.10 0.12 {found}")
    monkeypatch.setattr(machine, "accelerators", lambda: ["a GPU"])
    assert Flax().check(Options(device=device))[-1].level == level
