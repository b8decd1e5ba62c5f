"""Cross-validation trains a section once for each fold."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MismatchError
from jprep.train.backend import Plan
from jprep.train.job.config import parse_train_config
from jprep.train.job.tracking import TrackerConfig
from jprep.train.launcher import launch
from jprep.train.launcher.cross_validation import config_of_fold, read_folds, train_folds
from jprep.train.launcher.launch import RunInputs
from jprep.train.run.directory import read_job
from jprep.train.run.events import read_events
from tests.fakes.labelled_run import rows, section, tokenizer
from tests.fakes.numpy_backend import Numpy
from tests.fakes.small_run import plan_of


class Here(Numpy):
    """The backend, without an environment."""

    env: dict[str, str] = {}

    def plan(self, job: Any, run: Path, host: Any) -> Plan:
        return plan_of(run, **self.env)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(launch, "load_backend", lambda name: Here())
    monkeypatch.setattr(launch, "_python", lambda backend, options, dry: Path("python"))
    monkeypatch.setattr(Here, "env", {})
    tokenizer(tmp_path / "tokenizer")
    rows(tmp_path / "rows.jsonl")
    return tmp_path


def train(workspace: Path, **changes: Any) -> int:
    given = section(workspace / "rows.jsonl", steps=6, **changes)
    return train_folds(given, RunInputs("rows", "numpy", workspace / "run", workspace / "tokenizer"))


def starts(workspace: Path) -> list[int]:
    runs = sorted(workspace.glob("run/fold-*"))
    return [sum(event.kind == "start" for event in read_events(run)) for run in runs]


def test_each_fold_is_trained_once_and_summarized(workspace: Path) -> None:
    assert train(workspace) == 0
    jobs = [read_job(workspace / "run" / f"fold-{fold}") for fold in range(3)]
    assert [job.train.fold for job in jobs] == [0, 1, 2] and [job.name for job in jobs][2] == "rows/fold-2"
    found = read_folds(workspace / "run")
    assert found.name == "rows" and found.jobs == [job.fingerprint for job in jobs]
    assert found.figures.keys() >= {"loss", "accuracy", "macro_f1", "mcc"}
    last = [read_events(workspace / "run" / f"fold-{fold}")[-3] for fold in range(3)]
    assert all(event.kind == "validation" for event in last)
    each = [event.figures["loss"] for event in last]
    assert found.figures["loss"].each == each
    assert found.figures["loss"].mean == pytest.approx(statistics.fmean(each))
    assert found.figures["loss"].deviation == pytest.approx(statistics.stdev(each))
    before = (workspace / "run" / "folds.json").read_bytes()
    assert train(workspace) == 0
    assert starts(workspace) == [1, 1, 1] and (workspace / "run" / "folds.json").read_bytes() == before
    data = (workspace / "rows.jsonl").read_text(encoding="utf-8")
    (workspace / "rows.jsonl").write_text(data.replace("東京の7", "東京の8", 1), encoding="utf-8")
    with pytest.raises(MismatchError):  # even where all is done
        train(workspace)


def test_copies_of_a_fold_have_places_of_their_own() -> None:
    named = {"use": "tensorboard", "log_dir": "logs", "name": "first"}
    given = parse_train_config(
        {
            "steps": 1, "checkpoint": {"mirror": "s3://bucket/run/"}, "push": {"to": "me/model"},
            "trackers": [named, "mlflow", {"use": "wandb", "project": "p"}],
        },
        "here",
    )  # fmt: skip
    found = config_of_fold(given, 1, "fold-1")
    assert found.fold == 1 and found.checkpoint.mirror == "s3://bucket/run/fold-1"
    assert found.push.to == "me/model-fold-1"
    assert found.trackers == [msgspec.convert(named | {"name": "first-fold-1"}, TrackerConfig), *given.trackers[1:]]
    assert config_of_fold(parse_train_config({"steps": 1}, "here"), 0, "fold-0").checkpoint.mirror == ""


def test_a_failed_fold_is_resumed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "run").mkdir()
    (workspace / "run" / "folds.json").write_text("{}")  # of another time
    monkeypatch.setattr(Here, "env", {"REFUSE_AT": "5"})
    assert train(workspace) == 2
    assert starts(workspace) == [1]
    with pytest.raises(ConfigError, match="no finished cross-validation"):
        read_folds(workspace / "run")
    monkeypatch.setattr(Here, "env", {})
    assert train(workspace) == 0
    assert starts(workspace) == [2, 1, 1]
    assert [event.step for event in read_events(workspace / "run" / "fold-0") if event.kind == "start"] == [0, 4]


def test_a_metric_that_is_undefined_in_some_folds(workspace: Path) -> None:
    rows(workspace / "rows.jsonl", scores=True)
    data = (workspace / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [json.dumps(json.loads(line) | {"label": 1.0, "fold": n % 3}) for n, line in enumerate(data)]
    lines[0] = json.dumps(json.loads(lines[0]) | {"label": 2.0})
    (workspace / "rows.jsonl").write_text("\n".join(lines))
    assert train(workspace, task="regress", labelled={"length": 24, "folds": 3, "fold": "fold"}) == 0
    pearson = read_folds(workspace / "run").figures["pearson"]
    assert pearson.each[1:] == [None, None] and pearson.mean == pearson.each[0] is not None
    assert pearson.deviation is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"labelled": {}}, "no folds"), ({"validation_data": ["x.jsonl"]}, "no folds"),
     ({"validation": {"every_steps": 0}}, "the folds would not be validated")],
)  # fmt: skip
def test_sections_without_folds_or_validation_are_refused(changes: dict[str, Any], says: str, workspace: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        train(workspace, **changes)
    assert caught.value.fix and not (workspace / "run").exists()
