"""The recipe for this backend runs to the end, and a killed run has the losses of an uninterrupted one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jprep.train.run.events import metric_curve, read_events
from tests.conftest import ROOT

RECIPE = ROOT / "data_recipes" / "roberta-fairseq-tpu.toml"
CLI = "from jprep.cli.main import main; main()"
STEPS = 40
SETTINGS = {
    "train.epochs": 0, "train.steps": STEPS, "train.log_every": 1,
    "train.optimizer.lr": 3e-3, "train.checkpoint.every_steps": 10,
    "train.backend.fairseq-xla.device": '"xla"' if find_spec("torch_xla") else '"cpu"',
}  # fmt: skip


def jprep(place: Path, *words: object, **env: str) -> None:
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-c", CLI, *map(str, words)]
    done = subprocess.run(command, cwd=place, env=os.environ | env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def train(work: Path, **env: str) -> Path:
    """Run the recipe at scale tiny; return the run directory."""
    changes = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    jprep(work, "run", RECIPE, "--scale", "tiny", "--work", work, "--workers", 1, *changes, **env)
    return work / "roberta-fairseq-tpu-tiny" / "runs" / "fairseq-xla"


def losses(run: Path) -> dict[int, float]:
    return dict(zip(*metric_curve(read_events(run)), strict=True))


def test_a_killed_run_of_the_recipe_has_the_losses_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    found = losses(whole)
    assert list(found) == list(range(1, STEPS + 1))
    assert sum(list(found.values())[-5:]) < 0.97 * sum(list(found.values())[:5])
    killed = train(tmp_path / "killed", JPREP_FAILPOINT="run.committed@2")
    starts: list[Any] = [event.step for event in read_events(killed) if event.kind == "start"]
    assert starts == [0, 10, 20, 30], "each worker was to be killed before its second checkpoint, in mid-epoch"
    assert losses(killed) == found
    exports = [run / "export" / "model.safetensors" for run in (whole, killed)]
    assert exports[0].read_bytes() == exports[1].read_bytes()
    events = list(read_events(whole))
    validated = next(event.step for event in events if event.kind == "validation")
    compiling = [event.step for event in events if event.figures.get("compiling")]
    assert all(step <= validated + 1 for step in compiling), "XLA compiles nothing after the first validation"
    assert list((whole / "tensorboard").iterdir()), "figures are there for TensorBoard"
