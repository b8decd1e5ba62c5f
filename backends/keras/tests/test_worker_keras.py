"""The worker's errors when the machine does not match the plan, or memory is full."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tensorflow as tf

from jprep.errors import MachineError
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_keras.engines import jax_engine, tensorflow_engine
from jprep_keras.engines.base import EngineSettings
from jprep_keras.planning.layout import Layout
from jprep_keras.worker import __main__ as worker
from jprep_keras.worker import training
from tests.fakes.trained_run import trained_run

LAYOUT = Layout(engine="tensorflow", device="cpu", devices=1, micro_batch=4, accumulate=1, memory=0)


def arguments(run: Path) -> list[str]:
    return ["train", str(run), "--layout", msgspec.json.encode(LAYOUT).decode()]


def test_running_out_of_memory_at_the_first_step_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[80,1024]")

    monkeypatch.setattr(training, "TrainState", full)
    monkeypatch.setattr(training, "create_engine", lambda settings: None)
    assert worker.main(arguments(trained_run(tmp_path, backend="keras"))) == 3
    assert "shape[80,1024]" in (said := capsys.readouterr().err) and "train.backend.keras.micro_batch" in said


@pytest.mark.parametrize(("device", "words"), [("gpu", "no GPU"), ("tpu", "no TPU")])
def test_missing_devices_end_the_run_with_a_fix(device: str, words: str) -> None:
    with pytest.raises(MachineError, match=words) as error:
        tensorflow_engine.make_strategy(msgspec.structs.replace(LAYOUT, device=device))
    assert 'device = "cpu"' in error.value.fix


def test_a_tpu_with_other_cores_than_planned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are divided among the cores: with another number of them some would be left out."""
    layout, strategy = msgspec.structs.replace(LAYOUT, device="tpu"), SimpleNamespace(num_replicas_in_sync=8)
    monkeypatch.setattr(tensorflow_engine, "_tpu_strategy", lambda layout: strategy)
    with pytest.raises(MachineError, match="8 TPU cores, but the plan uses 1") as error:
        tensorflow_engine.make_strategy(layout)
    assert error.value.fix == "train.backend.keras.devices = 8"
    assert tensorflow_engine.make_strategy(msgspec.structs.replace(layout, devices=8)) is strategy


@pytest.mark.parametrize("deterministic", [True, False])
def test_jax_gets_the_flag_of_deterministic_kernels_if_asked(
    deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    layout = msgspec.structs.replace(LAYOUT, engine="jax", device="gpu")
    settings = EngineSettings(layout, OptimizerConfig(), "fp32", deterministic, jit_compile=False)
    with pytest.raises(MachineError, match="no GPU"):
        jax_engine.JaxEngine(settings)
    assert ("--xla_gpu_deterministic_ops=true" in os.environ["XLA_FLAGS"]) == deterministic
