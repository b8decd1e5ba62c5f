"""The layout of a job on a machine, and what the planner finds there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.dataset.mix import MixConfig
from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.backend import Host, Plan
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.planning import checks as shared_checks
from jprep.train.planning import machine
from jprep.train.run.directory import read_job
from jprep_keras.backend import Keras
from jprep_keras.options import Options
from jprep_keras.planning import checks
from jprep_keras.planning.layout import Layout
from tests.fakes.trained_run import trained_run

CPU, GPUS = Host("python", 4, 8 << 30), Host("python", 4, 8 << 30, ("GPU", "GPU"), 1 << 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("run"))


def plan(run: Path, host: Host = CPU, *, batch: int = 8, model: dict[str, Any] | None = None, **options: Any) -> Plan:
    job = read_job(run)
    train = msgspec.structs.replace(job.train, batch=batch)
    chosen = msgspec.to_builtins(Options(**options))
    changed = msgspec.structs.replace(job, train=train, options=chosen, model=model or job.model)
    return Keras().plan(changed, run, host)


def llama(**more: Any) -> dict[str, Any]:
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, **more}
    return model_config(ModelConfig(config=config), "clm", TokenizerInfo(300, 32, 0, 2, 1))


def test_one_process_drives_all_devices(run: Path) -> None:
    found = plan(run, GPUS)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 8, 1)
    assert found.env["KERAS_BACKEND"] == "tensorflow" and "CUDA_VISIBLE_DEVICES" not in found.env
    assert found.notes == ("Keras on TensorFlow, 2 GPU devices (MirroredStrategy)",)
    layout_of_worker = msgspec.json.decode(found.argv[-1], type=Layout)
    assert msgspec.to_builtins(layout_of_worker) == found.settings


def test_without_an_accelerator_the_plan_uses_one_cpu(run: Path) -> None:
    found = plan(run)
    assert found.settings["device"] == "cpu" and found.settings["devices"] == 1
    assert found.env["CUDA_VISIBLE_DEVICES"] == "-1" and "GLIBC_TUNABLES" in found.env


def test_the_engine_is_chosen_by_one_option(run: Path) -> None:
    found = plan(run, engine="jax", devices=2)
    assert (found.env["KERAS_BACKEND"], found.env["JAX_PLATFORMS"]) == ("jax", "cpu")
    assert found.notes == ("Keras on JAX, 2 CPU devices",)


def test_a_tpu_is_planned_with_its_memory(run: Path) -> None:
    found = plan(run, device="tpu", devices=8, memory=16, tpu="my-tpu")
    assert found.settings["tpu"] == "my-tpu" and found.target and found.target.memory == 16 << 30
    assert found.notes == ("Keras on TensorFlow, 8 TPU devices (TPUStrategy); not yet tested on a TPU",)


def test_the_micro_batch_is_that_of_each_device(run: Path) -> None:
    found = plan(run, devices=2, micro_batch=2, batch=12)
    assert (found.micro_batch, found.accumulate) == (4, 3)


def test_replaced_token_detection_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keras does not train the task 'rtd'"):
        SuiteRunner(tmp_path, "keras", {}).prepare("electra-rtd")


@pytest.mark.parametrize(
    ("options", "words", "fix"),
    [
        ({"devices": 3}, "8 rows cannot be divided among 3", "multiple of 3"),
        ({"micro_batch": 3}, "micro-batch of 3 rows", "divisor of 8"),
        ({"micro_batch": -1}, "0 or more", "0 to let jprep choose"),
        ({"model": {"model_type": "t5"}}, "no model 't5'", "gpt2"),
        ({"model": llama(attention_bias=True)}, "cannot have attention_bias = True", "attention_bias = false"),
        ({"model": llama(head_dim=16)}, "cannot have head_dim = 16", "head_dim = 8"),
        ({"model": llama(attention_dropout=0.1)}, "cannot have attention_dropout = 0.1", "attention_dropout = 0"),
        ({"model": llama(rope_scaling={"rope_type": "linear", "factor": 2})}, "does not scale RoPE", "another backend"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_a_fix(
    options: dict[str, Any], words: str, fix: str, run: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        plan(run, **options)
    assert words in error.value.what and fix in error.value.fix


@pytest.mark.parametrize(
    ("device", "found", "level"),
    [
        ("auto", "0 0", "error"),
        ("gpu", "0 0", "error"),
        ("tpu", "0 0", "error"),
        ("cpu", "0 0", "ok"),
        ("auto", "2 0", "ok"),
    ],
)
def test_check_reports_a_device_that_the_engine_cannot_use(
    device: str, found: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_checks, "worker_python", lambda backend, options: Path("python"))
    monkeypatch.setattr(checks, "probe_output", lambda python, code: f"3.15 0.32 2.21 {found}")
    monkeypatch.setattr(machine, "accelerators", lambda: ["a GPU"])
    assert Keras().check(Options(device=device))[-1].level == level


def test_records_are_not_mixed(run: Path) -> None:
    job = msgspec.structs.replace(read_job(run), mix=MixConfig(weights={"a": 1}))
    with pytest.raises(ConfigError, match="an order of their own"):
        checks.check_options(job, Options(records=["x"]))


def test_documents_of_records_cannot_be_told_apart(run: Path) -> None:
    job = read_job(run)
    apart = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, document_masks=True))
    checks.check_options(apart, Options())
    with pytest.raises(ConfigError, match="do not say where their documents begin") as error:
        checks.check_options(apart, Options(records=["x"]))
    assert error.value.where == "train.document_masks"
