"""The recipe that is made for this backend goes all the way, and its loss is that of any mesh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jprep.train.launcher.cross_validation import read_folds
from jprep.train.run.directory import read_job
from jprep.train.run.events import metric_curve, read_events
from tests.conftest import ROOT

RECIPE = ROOT / "data_recipes" / "bert-regression-flax.toml"
CLI = "from jprep.cli.main import main; main()"
FEW = {"labelled.folds": 2, "steps": 10, "epochs": 0, "batch": 8, "labelled.length": 32, "log_every": 5}


def train(work: Path, until: str = "train", **settings: object) -> tuple[Path, str]:
    """Do the recipe's steps at scale tiny; where its runs are, and what was said."""
    given = FEW | {"backend.flax.device": '"cpu"'} | {key.replace("__", "."): value for key, value in settings.items()}
    changes = [part for key, value in given.items() for part in ("--set", f"train.{key}={value}")]
    command = [sys.executable, "-c", CLI, "run", RECIPE, "--scale", "tiny", "--work", work, "--until", until]
    done = subprocess.run([*map(str, command), "--workers", "1", *changes], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return work / "bert-regression-flax-tiny" / "runs" / "flax", done.stdout


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs, said = train(tmp_path_factory.mktemp("one"), "export")
    assert "rmse" in said and "of 2 folds" in said
    return runs


def test_each_fold_is_trained_measured_and_exported(folds: Path) -> None:
    found = read_folds(folds)
    assert len(found.jobs) == 2 and found.figures.keys() == {"loss", "rmse", "pearson", "spearman"}
    for fold in ("fold-0", "fold-1"):
        assert read_job(folds / fold).backend == "flax"
        assert (folds / fold / "export" / "model.safetensors").exists()
        first, last = (event.figures for event in read_events(folds / fold) if event.kind == "log")
        assert first["compiling"] and "compiling" not in last
        assert last["epoch_seconds"]


def test_eight_devices_have_the_loss_of_one(folds: Path, tmp_path: Path) -> None:
    eight, _ = train(tmp_path, fold=1, backend__flax__devices=8)
    assert read_job(eight).fingerprint == read_folds(folds).jobs[1]
    assert metric_curve(read_events(eight))[1] == pytest.approx(
        metric_curve(read_events(folds / "fold-1"))[1], rel=1e-5
    )
    measured = [event.figures["rmse"] for event in read_events(eight) if event.kind == "validation"]
    assert measured[-1] == pytest.approx(read_folds(folds).figures["rmse"].each[1], rel=1e-5)
