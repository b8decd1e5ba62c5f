"""Preparing and creating runs, the host they are planned for, and the status of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.io import machine
from jprep.train.backend import Backend, Host
from jprep.train.backend_loading import default_backend_name
from jprep.train.job.config import TrainConfig
from jprep.train.launcher import launch
from jprep.train.launcher.import_probe import NotInstalledError
from jprep.train.launcher.launch import PreparedRun, RunInputs, create_run, prepare_run
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.planning.host import this_host
from jprep.train.run import directory
from jprep.train.run.directory import INIT, JOB, read_job
from jprep.train.run.events import Event
from jprep.train.run.status import RunStatus
from tests.conftest import digests
from tests.fakes.numpy_backend import Numpy
from tests.fakes.small_work import small_work

SECTION = {"task": "mlm", "model": {"preset": "roberta-tiny"}, "batch": 8, "length": 16, "steps": 3}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tokenizer and a dataset, which is the working directory."""
    monkeypatch.setattr(launch, "load_backend", lambda name: Numpy())
    monkeypatch.setattr(launch, "worker_python", lambda backend, options=None: Path("python"))
    monkeypatch.chdir(tmp_path)
    small_work(tmp_path)
    return Path("work/small")


def prepared(work: Path, run: Path = Path("run"), **changes: Any) -> PreparedRun:
    return prepare_run(SECTION | changes, inputs(work, run))


def inputs(work: Path, run: Path = Path("run")) -> RunInputs:
    return RunInputs("one", "numpy", run, work / "tokenizer", work / "dataset")


def test_preparing_a_run_writes_nothing(work: Path, tmp_path: Path) -> None:
    before = digests(tmp_path)
    found = prepared(work, backend={"numpy": {"micro_batch": 4}})
    assert (found.plan.micro_batch, found.plan.accumulate, found.job.options) == (
        4,
        2,
        {"micro_batch": 4, "device": ""},
    )
    assert found.plan.argv[0] == "python" == found.host.python
    assert found.plan.argv[-1] == str(tmp_path / "run")
    assert digests(tmp_path) == before


def test_a_run_begins_with_weights_that_are_written_once(work: Path) -> None:
    found = prepared(work)
    create_run(found)
    assert read_job(found.run) == found.job
    first = (found.run / INIT).stat()
    create_run(prepared(work))
    assert (found.run / INIT).stat().st_mtime_ns == first.st_mtime_ns
    write_initial_weights(found.job.model, "mlm", 1, Path("expected"))
    assert (found.run / INIT).read_bytes() == Path("expected").read_bytes()


def test_result_options_are_part_of_the_job(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = prepared(work, backend={"numpy": {"micro_batch": 4}}).job
    assert plain.computed == {} and plain.fingerprint == prepared(work).job.fingerprint

    def result_options(self: Numpy, options: Any) -> dict[str, int]:
        return {"micro_batch": options.micro_batch} if options.micro_batch else {}

    monkeypatch.setattr(Numpy, "result_options", result_options)
    changed = prepared(work, backend={"numpy": {"micro_batch": 4}})
    assert changed.job.computed == {"micro_batch": 4} and changed.job.fingerprint != plain.fingerprint
    assert prepared(work).job.fingerprint == plain.fingerprint
    create_run(changed)
    with pytest.raises(MismatchError, match=r"options.micro_batch: was 4, is null"):
        create_run(prepared(work))


def test_an_interrupted_creation_is_completed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(launch, "write_initial_weights", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            create_run(prepared(work))
    assert Path("run", JOB).exists() and not Path("run", INIT).exists()
    create_run(prepared(work))
    assert Path("run", INIT).exists()


def test_damaged_initial_weights_are_written_again(work: Path) -> None:
    found, said = prepared(work), list[str]()
    create_run(found)
    weights = found.run / INIT
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    create_run(found, said.append)
    assert weights.read_bytes() == good
    assert said == ["init.safetensors is damaged and is written again"]


def test_a_dry_run_writes_no_list_of_samples(work: Path, tmp_path: Path) -> None:
    before = digests(tmp_path)
    prepare_run(SECTION | {"packing": "complete"}, inputs(work), dry=True)
    assert digests(tmp_path) == before


def test_lists_of_a_read_only_dataset_are_stored_in_the_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(work / "dataset")
    monkeypatch.setattr(directory.os, "access", lambda path, mode: False)  # root may write anywhere
    create_run(prepared(work, packing="complete"))
    assert digests(work / "dataset") == before
    assert [path.suffix for path in Path("run", "lists").iterdir()] == [".samples"]


@pytest.mark.parametrize("name", ["init.safetensors", "checkpoints", "thesis.txt"])
def test_a_folder_of_another_kind_is_refused(name: str, work: Path) -> None:
    Path("run").mkdir()
    Path("run", name).touch()
    with pytest.raises(ConfigError, match=f"jprep has not written: {name}"):
        create_run(prepared(work))
    assert [path.name for path in Path("run").iterdir()] == [name]


def test_given_weights_are_found_from_the_working_directory(work: Path) -> None:
    write_initial_weights(prepared(work).job.model, "mlm", 7, Path("given.safetensors"))
    create_run(prepared(work, model={"preset": "roberta-tiny", "init": "given.safetensors"}))
    assert Path("run", INIT).read_bytes() == Path("given.safetensors").read_bytes()


def test_another_job_is_refused_and_nothing_of_the_first_is_touched(work: Path) -> None:
    create_run(prepared(work))
    before = digests(Path("run"))
    with pytest.raises(MismatchError, match="seed"):
        create_run(prepared(work, seed=2))
    assert digests(Path("run")) == before


def test_without_an_environment_only_a_dry_run_is_planned(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(backend: Backend, options: object) -> Path:
        raise NotInstalledError("not installed")

    monkeypatch.setattr(launch, "worker_python", absent)
    monkeypatch.setenv("JPREP_BACKENDS", "/nowhere")
    with pytest.raises(MachineError, match="not installed"):
        prepared(work)
    assert prepare_run(SECTION, inputs(work), dry=True).host.python == "/nowhere/numpy/bin/python"


def test_a_recipe_without_a_train_section_is_refused(work: Path) -> None:
    with pytest.raises(ConfigError, match=r"no \[train\] section") as caught:
        prepare_run({}, inputs(work))
    assert "[train]" in caught.value.fix


@pytest.mark.parametrize(
    ("section", "name"),
    [({}, "torch"), ({"backend": {"flax": {}}}, "flax"), ({"backend": {"flax": {}, "torch": {}}}, "torch")],
)
def test_the_backend_is_the_recipe_s_only_one_or_torch(section: dict[str, Any], name: str) -> None:
    assert default_backend_name(msgspec.convert(section, TrainConfig)) == name
    assert default_backend_name(None) == "torch"


DEVICES = "0, GPU-aa11, 81920, NVIDIA A100\n1, GPU-bb22, 40960, NVIDIA A100, small\n2, GPU-cc33, [N/A], NVIDIA GB10\n"


@pytest.mark.parametrize(
    ("visible", "names", "memory"),
    [
        (None, ("NVIDIA A100", "NVIDIA A100, small", "NVIDIA GB10"), 0),
        ("1,0", ("NVIDIA A100, small", "NVIDIA A100"), 40 << 30),
        ("GPU-aa", ("NVIDIA A100",), 80 << 30),
        ("0,-1,1", ("NVIDIA A100",), 80 << 30),
        ("", (), 0),
    ],
)
def test_accelerators_are_those_that_cuda_would_see(
    visible: str | None, names: tuple[str, ...], memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "nvidia-smi"
    driver.write_text(f"#!/bin/sh\ncat <<END\n{DEVICES}END\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    host = this_host(Path("python"))
    assert (host.devices, host.device_memory) == (names, memory)


def test_a_machine_without_a_driver_has_no_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    host = this_host(Path("python"))
    assert host == Host("python", host.cores, host.memory)
    assert host.cores >= 1 and host.memory > 1 << 20


def test_a_container_s_memory_is_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMITS", (str(limit),))
    limit.write_text("max\n")
    whole = machine.memory()
    limit.write_text("1048576\n")
    assert machine.memory() == 1 << 20 < whole


def test_the_status_forgets_the_rate_of_an_earlier_start() -> None:
    standing = RunStatus()
    assert standing.seconds_left(100) is None
    standing.add([Event(0, 0, "start"), Event(10, 5, "log", {"loss": 3.0})])
    assert (standing.rate, standing.loss) == (0.5, 3.0)  # all that is known: the first step is in it
    standing.add([Event(12, 15, "log", {"loss": 2.0}), Event(13, 15, "validation", {"loss": 2.5})])
    standing.add([Event(13, 15, "checkpoint", {"seconds": 0.1}), Event(14, 25, "log", {"loss": None})])
    assert (standing.rate, standing.saved, standing.validation, standing.loss) == (5.0, 15, {"loss": 2.5}, None)
    standing.add([Event(20, 15, "restart"), Event(30, 15, "start")])
    assert standing.step == 15
    standing.add([Event(40, 20, "log", {"loss": 1.0})])
    assert standing.seconds_left(30) == 20.0
    standing.add([Event(50, 0, "start")])  # --resume never: what was saved lies aside
    assert (standing.step, standing.saved) == (0, 0)
