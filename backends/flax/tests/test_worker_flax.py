"""The worker's errors when the machine does not match the plan."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import msgspec
import pytest

from jprep_flax.planning.layout import Layout
from jprep_flax.worker import __main__ as worker
from tests.fakes.trained_run import trained_run

LAYOUT = Layout(
    device="cpu",
    devices=1,
    processes=1,
    mesh=(1, 1, 1),
    micro_batch=4,
    accumulate=1,
    coordinator="",
    vocabulary=300,
    memory=0,
)


def arguments(run: Path, **changes: Any) -> list[str]:
    layout = msgspec.structs.replace(LAYOUT, **changes)
    return ["train", str(run), "--layout", msgspec.json.encode(layout).decode()]


def test_running_out_of_memory_at_the_first_step_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 80 GiB")

    monkeypatch.setattr(worker, "TrainState", full)
    monkeypatch.setattr(worker, "join_processes", lambda *_, **__: contextlib.nullcontext())
    assert worker.main(arguments(trained_run(tmp_path, backend="flax"))) == 3
    assert "80 GiB" in (said := capsys.readouterr().err) and "a smaller train.backend.flax.micro_batch" in said


def test_other_device_errors_are_left_to_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise jax.errors.JaxRuntimeError("UNAVAILABLE: a link is down")

    monkeypatch.setattr(worker, "TrainState", lost)
    monkeypatch.setattr(worker, "join_processes", lambda *_, **__: contextlib.nullcontext())
    with pytest.raises(jax.errors.JaxRuntimeError, match="a link"):
        worker.main(arguments(trained_run(tmp_path, backend="flax")))


@pytest.mark.parametrize(
    ("changes", "platform", "words", "fix"),
    [
        ({"device": "gpu"}, "cuda", "JAX finds no GPU", 'device = "cpu"'),
        ({"device": "gpu", "devices": 3}, "cpu", "JAX finds 1 devices", "devices = 1"),
    ],
)
def test_missing_devices_end_the_run_with_a_fix(
    changes: dict[str, Any], platform: str, words: str, fix: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "jprep_flax.worker", *arguments(trained_run(tmp_path, backend="flax"), **changes)]
    env = os.environ | {"JAX_PLATFORMS": platform}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 3, done.stderr
    assert words in done.stderr and fix in done.stderr
