"""Plans for another machine: the device that options name, its cost, disk and memory, and shapes that fit it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Host, Plan, Target
from jprep.train.job.config import CheckpointConfig, ModelConfig, TrainConfig
from jprep.train.models.flops import peak_flops
from jprep.train.planning import machine
from jprep.train.planning.cost import estimate_cost, parse_price
from jprep.train.planning.duration import Duration
from jprep.train.planning.gpu_models import gpu_memory
from jprep.train.planning.machine import (
    MachineOptions,
    TpuMachineOptions,
    check_machine,
    detect_device,
    devices_per_host,
    named_device,
    planned_elsewhere,
)
from jprep.train.planning.memory_fit import make_target
from jprep.train.planning.shapes import shape_notes
from jprep.train.planning.storage import estimate_host_memory, estimate_storage

SECTION = "train.backend.mine"
HERE = Host("python", 4, 8 << 30)
GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "gib"), [("A100-40GB", 40), ("a100 40gb", 40), ("40", 40), ("24GiB", 24), ("T4", 15), ("V100-32G", 32)]
)
def test_gpu_memory_from_a_name_or_a_size(name: str, gib: int) -> None:
    assert gpu_memory(name, SECTION) == gib << 30


@pytest.mark.parametrize("name", ["A100", "RTX 4080", "GTX-1080", "0", "", "A100-0GB"])
def test_a_gpu_without_a_size_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not known") as caught:
        gpu_memory(name, SECTION)
    assert "A100-40GB" in caught.value.fix and caught.value.where == f"{SECTION}.gpu"


@pytest.mark.parametrize(
    ("name", "called", "gib", "count"),
    [
        ("v3-8", "TPU v3", 16, 8), ("tpu-v3-8", "TPU v3", 16, 8), ("v2", "TPU v2", 8, 0), ("v4-32", "TPU v4", 32, 16),
        ("v5p-8", "TPU v5p", 95, 4), ("v5litepod-4", "TPU v5e", 16, 4), ("v5e-8", "TPU v5e", 16, 8),
        ("V6E-8", "TPU v6e", 32, 8),
    ],
)  # fmt: skip
def test_a_tpu_type_names_devices_and_their_memory(name: str, called: str, gib: int, count: int) -> None:
    assert named_device(TpuMachineOptions(tpu_type=name), SECTION) == (called, "tpu", gib << 30, count)


@pytest.mark.parametrize("name", ["v1", "v3-x", "v3-7", "A100-40GB", "v3-8-8"])
def test_an_unknown_tpu_type_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no TPU type"):
        named_device(TpuMachineOptions(tpu_type=name), SECTION)


@pytest.mark.parametrize(
    ("name", "tera"),
    [("TPU v2", 23), ("TPU v3", 61.5), ("TPU v4", 275), ("TPU v5e", 197), ("TPU v5p", 459), ("TPU v6e", 918)],
)
def test_tpus_have_their_published_peaks(name: str, tera: float) -> None:
    assert peak_flops(name) == tera * 1e12 and peak_flops(name, half=False) == pytest.approx(tera * 1e12 / 6)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"gpu": "40"}, "cpu", "no effect"), ({"tpu_type": "v3"}, "gpu", "no effect"),
        ({"gpu": "40", "tpu_type": "v3"}, "gpu", "both"), ({"host_memory": -1.0}, "cpu", "0 or more"),
    ],
)  # fmt: skip
def test_contradictory_machines_are_refused(options: dict[str, Any], kind: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_machine(TpuMachineOptions(**options), "auto", kind, SECTION)


def test_devices_of_a_tpu_type_are_divided_among_hosts() -> None:
    options = TpuMachineOptions(tpu_type="v4-32")
    assert devices_per_host(options, 4, SECTION) == 4 and devices_per_host(MachineOptions(), 4, SECTION) == 0
    with pytest.raises(ConfigError, match="among 3 hosts"):
        devices_per_host(options, 3, SECTION)


def test_the_named_device_is_used_instead_of_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "tpu_count", lambda: 0)
    monkeypatch.setattr(machine, "accelerators", list)
    gpus = Host("python", 4, 8 << 30, ("GPU",), GIB)
    named = TpuMachineOptions(tpu_type="v3-8", host_memory=256.0)
    assert [detect_device(TpuMachineOptions(), host) for host in (HERE, gpus)] == ["cpu", "gpu"]
    assert detect_device(named, gpus) == "tpu" and detect_device(MachineOptions(gpu="40"), HERE) == "gpu"
    assert named_device(msgspec.convert({"gpu": 40}, MachineOptions), SECTION) == ("40", "gpu", 40 << 30, 0)
    found = make_target(gpus, "tpu", per_host=8, machine=named, section=SECTION)
    assert (found.name, found.count, found.memory, found.elsewhere) == ("TPU v3", 8, 16 << 30, True)
    assert found.host_memory == 32 << 30
    assert (
        planned_elsewhere(named) and planned_elsewhere(MachineOptions(), 40) and not planned_elsewhere(MachineOptions())
    )


@pytest.mark.parametrize(
    ("text", "per_hour", "currency"),
    [
        ("32.77/hour", 32.77, ""), ("$786.48/day", 32.77, "$"), ("5000 JPY/h", 5000, "JPY"), ("¥1,200/d", 50, "¥"),
        ("USD 2.4 / hour", 2.4, "USD"), (".5/hour", 0.5, ""),
    ],
)  # fmt: skip
def test_prices(text: str, per_hour: float, currency: str) -> None:
    found = parse_price(text)
    assert found.per_hour == pytest.approx(per_hour) and found.currency == currency


@pytest.mark.parametrize(
    "text", ["32.77", "/hour", "3/week", "-3/hour", "0/hour", "$3€/hour", "3/hour/hour", "1e3/hour", "三/hour"]
)
def test_other_texts_are_no_prices(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_price(text)
    assert caught.value.where == "--price" and "32.77/hour" in caught.value.fix


def test_the_cost_of_the_published_gpt2_xl_run() -> None:
    """70 days on eight A100 at the price of such a machine."""
    found = estimate_cost(parse_price("$32.77/hour"), Duration(70 * 86_400.0, "70 days"))
    assert found.amount == pytest.approx(70 * 24 * 32.77) and "about $55,054: 1,680 hours" in found.text
    assert estimate_cost(parse_price("3 EUR/day"), Duration(86_400.0, "")).text.startswith("about 3.00 EUR: 24 hours")
    unknown = estimate_cost(parse_price("3/hour"), Duration(None, "unknown"))
    assert unknown.amount is None and "unknown" in unknown.text


def job(*, parameters: int = 10**9, ids: int = 50_000, pad: int = 0, batch: int = 64, **checkpoint: int) -> Any:
    keep = CheckpointConfig(**checkpoint)
    model = ModelConfig(pad_vocab=pad)
    section = TrainConfig(batch=batch, length=1024, checkpoint=keep, model=model)
    return SimpleNamespace(train=section, model={"vocab_size": ids}, parameters=parameters, backend="mine", samples=9)


def plan(target: Target | None = None, processes: int = 8, rows: int = 8, **more: Any) -> Plan:
    return Plan((), {}, processes, rows, 1, 0, target=target, **more)  # type: ignore[arg-type]


def gpus(host_memory: int = 0, kind: Any = "gpu", **more: Any) -> Target:
    return Target(
        name="A100-40GB", kind=kind, count=8, memory=40 << 30, host_memory=host_memory, elsewhere=True, **more
    )


def test_the_disk_holds_kept_checkpoints_and_the_one_being_written(tmp_path: Path) -> None:
    found = estimate_storage(job(keep_last=2, keep_best=1), plan(gpus()), HERE, tmp_path / "no" / "run")
    assert found.checkpoint == 12 * 10**9 and found.total == (3 + 1) * 12 * 10**9 + 4 * 10**9
    assert "52.00 GB for 3 checkpoints of 12.00 GB" in found.text and "free" not in found.text and not found.warning


def test_the_disk_holds_the_parts_that_are_joined(tmp_path: Path) -> None:
    whole, parts = (estimate_storage(job(), plan(gpus(), divided=divided), HERE, tmp_path) for divided in (False, True))
    assert parts.total - whole.total == parts.checkpoint == whole.checkpoint
    assert "one being written (and the pieces that it is joined from) and the initial weights" in parts.text


def test_the_disk_holds_the_state_of_a_training_that_is_continued(tmp_path: Path) -> None:
    found = job(keep_last=2)
    before = estimate_storage(found, plan(gpus()), HERE, tmp_path).total
    model = ModelConfig(init="universal", continue_training=True)
    found.train = msgspec.structs.replace(found.train, model=model)
    assert estimate_storage(found, plan(gpus()), HERE, tmp_path).total - before == 12 * 10**9


def test_only_a_plan_for_this_machine_is_compared_with_its_disk(tmp_path: Path) -> None:
    huge = job(parameters=10**15)
    assert "keep_last" in estimate_storage(huge, plan(), HERE, tmp_path).warning
    assert not estimate_storage(huge, plan(gpus()), HERE, tmp_path).warning


def test_host_memory_includes_loaders_and_is_that_of_the_machine_planned_for() -> None:
    found = estimate_host_memory(job(), plan(gpus(32 << 30)), HERE)
    assert found and found.total == 8 * 2 * 10**9 + 5 * 64 * 1024 * 20 + 12 * 10**9
    assert found.fits and "the host has 275 GB" in found.text and "loaders 0.01 GB" in found.text
    small = estimate_host_memory(job(), plan(gpus(2 << 30)), HERE)
    assert small and small.fits is False and "has 17.18 GB" in small.warning and not found.warning
    unknown = estimate_host_memory(job(), plan(gpus()), HERE)
    assert unknown and unknown.fits is None and "train.backend.mine.host_memory" in unknown.text
    assert estimate_host_memory(job(), plan(), HERE) is None, "on a CPU it is the memory of the device"


def test_offloaded_tensors_are_in_the_memory_of_each_host() -> None:
    two = gpus(64 << 30, hosts=2)
    found, without = (estimate_host_memory(job(), plan(two, host_memory=size), HERE) for size in (10**9, 0))
    assert found and without and found.total - without.total == 4 * 10**9


@pytest.mark.parametrize(
    ("kind", "rows", "ids", "pad", "said"),
    [
        ("gpu", 8, 50_000, 1, []), ("gpu", 3, 50_000, 1, ["micro_batch"]), ("gpu", 8, 50_257, 1, ["pad_vocab=128"]),
        ("tpu", 8, 50_000, 1, ["128, which a TPU's"]), ("tpu", 8, 50_000, 128, []),
        ("tpu", 8, 50_001, 8, ["pad_vocab"]),
        ("tpu", 4, 25_000, 1, ["device, 4,", "25,000 ids"]), ("cpu", 3, 50_257, 1, []),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fill_the_device_are_pointed_out(
    kind: Any, rows: int, ids: int, pad: int, said: list[str]
) -> None:
    padded = ModelConfig(pad_vocab=pad).padded(ids)
    found = shape_notes(job(ids=ids, pad=pad), plan(gpus(kind=kind), rows=rows, vocabulary=padded), HERE)
    assert len(found) == len(said) and all(part in note for part, note in zip(said, found, strict=True))


def test_a_backend_that_does_not_pad_has_another_way() -> None:
    target = gpus(kind="tpu")
    [note] = shape_notes(job(), plan(target), HERE)
    assert "vocab_size" in note and "pad_vocab" not in note
    unused = shape_notes(job(pad=128), plan(target), HERE)
    assert "pad_vocab has no effect on the backend mine" in unused[0] and len(unused) == 2


def test_rows_of_one_process_are_divided_among_its_devices() -> None:
    assert shape_notes(job(), plan(gpus(kind="tpu"), processes=1, rows=64), HERE)[0].startswith("50,000 ids")
    assert "device, 4," in shape_notes(job(), plan(gpus(kind="tpu"), processes=1, rows=32), HERE)[0]
