"""Trackers get the metrics of a run, and none of them can stop it. Their libraries: `test_tracker_libraries.py`."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.job.config import parse_train_config
from jprep.train.job.tracking import TrackerConfig
from jprep.train.run.directory import read_job
from jprep.train.run.events import Event, record_event
from jprep.train.trackers import check, follow
from jprep.train.trackers.check import check_trackers
from jprep.train.trackers.follow import Trackers, track_run
from jprep.train.trackers.tensorboard import TENSORBOARD, event_file_path, event_file_url, viewed_folder
from jprep.train.trackers.tracker import metrics
from jprep.train.trackers.wandb import Wandb
from tests.fakes.small_run import small_run


def test_tensorboard_s_file(tmp_path: Path) -> None:
    """Check the records, and that the file does not depend on restarts."""
    run = small_run(tmp_path)
    record_event(run, "start", 0)
    record_event(run, "log", 5, {"loss": 1.5})
    trackers = Trackers(run, read_job(run), print)
    trackers.update()
    record_event(run, "validation", 5, {"loss": 1e300})
    trackers.close()
    data = (run / TENSORBOARD).read_bytes()
    assert data[:12].hex() == "18000000000000" + "00" + data[8:12].hex() and b"brain.Event:2" in data
    assert b"train/loss" in data and b"eval/loss" in data
    again = Trackers(run, read_job(run), print)
    again.close()
    assert (run / TENSORBOARD).read_bytes() == data
    lengths, place = [], 0
    while place < len(data):
        lengths.append(int.from_bytes(data[place : place + 8], "little"))
        place += lengths[-1] + 16
    assert place == len(data) and len(lengths) == 6, "version, text, hyperparameters, three events"


@pytest.mark.parametrize("trackers", [[], ["wandb"], ["tensorboard"]])
def test_tensorboard_s_file_is_written_on_request(trackers: list[str], tmp_path: Path) -> None:
    run = small_run(tmp_path, trackers=trackers)
    record_event(run, "log", 5, {"loss": 1.5})
    Trackers(run, read_job(run), lambda text: None).close()
    assert (run / TENSORBOARD).exists() == ("tensorboard" in trackers)


def test_a_missing_tracker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run = small_run(tmp_path, trackers=["wandb"])
    Trackers(run, read_job(run), said.append).close()
    assert "wandb is not installed" in said[0]


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a module in place of the library, which notes its calls."""
    (tmp_path / "wandb.py").write_text(
        "calls = []\ndef init(**about):\n    calls.append(about)\n    return __import__('wandb')\n"
        "def log(figures, step):\n    calls.append((step, figures))\ndef finish():\n    calls.append('finished')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    yield importlib.import_module("wandb")
    del sys.modules["wandb"]


def test_wandb_gets_metrics_if_installed(tmp_path: Path, wandb: Any) -> None:
    run = small_run(tmp_path, trackers=["wandb"])
    record_event(run, "log", 5, {"loss": 1.5})
    Trackers(run, read_job(run), print).close()
    assert wandb.calls[0]["resume"] == "allow"
    assert wandb.calls[0]["mode"] == "offline" and wandb.calls[0]["project"] == "jprep"
    assert wandb.calls[1:] == [(5, {"train/loss": 1.5, "train/epoch": 40 / read_job(run).samples}), "finished"]


def test_the_id_of_a_fold_in_wandb_has_no_slash(tmp_path: Path, wandb: Any) -> None:
    job = read_job(small_run(tmp_path))
    for name, expected in (("a name", "a name"), ("name/fold-0", "name-fold-0")):
        Wandb(tmp_path, msgspec.structs.replace(job, name=name), TrackerConfig(use="wandb"))
        assert (wandb.calls[-1]["id"], wandb.calls[-1]["name"]) == (f"{expected}-{job.fingerprint[:8]}", name)


def test_a_metric_has_the_name_that_transformers_reports(tmp_path: Path) -> None:
    job = read_job(small_run(tmp_path))
    log = Event(0, 5, "log", {"loss": 1.0, "lr": 0.1, "norm": None, "tokens_per_second": 9.0})
    found = metrics(log, job)
    assert list(found) == [
        "train/loss",
        "train/learning_rate",
        "train/grad_norm",
        "train/tokens_per_second",
        "train/epoch",
    ]
    assert found["train/epoch"] == 5 * job.train.batch / job.samples
    assert metrics(Event(0, 5, "validation", {"accuracy": 0.5}), job) == {"eval/accuracy": 0.5}
    assert metrics(Event(0, 5, "checkpoint", {"seconds": 0.5}), job) == {}


class Hanging:
    """A tracker whose server does not answer."""

    def add(self, events: list[Event]) -> None:
        time.sleep(60)

    def close(self) -> None:
        raise OSError("the server is gone")


def test_a_further_stop_signal_does_not_wait_for_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(follow, "open_tracker", lambda *_: Hanging())
    run, signals = small_run(tmp_path, trackers=["tensorboard"]), count(1)
    record_event(run, "log", 5, {"loss": 1.5})
    begun = time.monotonic()
    with track_run(run, read_job(run), said.append, lambda: next(signals) // 3):
        pass
    assert time.monotonic() - begun < follow._CLOSE_SECONDS / 2
    assert "(tensorboard) have not finished" in said[0]


def test_a_tracker_that_hangs_or_fails_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(follow, "open_tracker", lambda *_: Hanging())
    monkeypatch.setattr(follow, "_CLOSE_SECONDS", 0.1)
    run = small_run(tmp_path, trackers=["wandb"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    record_event(run, "log", 5, {"loss": 1.5})
    with track_run(run, read_job(run), said.append):
        pass
    assert "(wandb) have not finished" in said[0]
    monkeypatch.setattr(Hanging, "add", lambda self, events: None)
    Trackers(run, read_job(run), said.append).close()
    assert "wandb failed and is disabled" in said[1] and "the server is gone" in said[1]


def test_the_event_file_is_where_the_recipe_says(tmp_path: Path) -> None:
    job = read_job(small_run(tmp_path))
    own = TrackerConfig(use="tensorboard", project="p", entity="e", tags=["a"])
    assert event_file_path(tmp_path, job, own) == tmp_path / TENSORBOARD
    shared = TrackerConfig(use="tensorboard", project="p", entity="e", name="n", log_dir="logs")
    assert event_file_path(tmp_path, job, shared).parent == tmp_path / "logs/e/p/n"
    remote = TrackerConfig(use="tensorboard", log_dir="gs://bucket/logs/")
    assert event_file_url(job, remote).startswith("gs://bucket/logs/small/events.out.tfevents.")
    assert event_file_path(tmp_path, job, remote) == tmp_path / TENSORBOARD


@pytest.mark.parametrize(
    ("tracker", "folder"),
    [
        ("tensorboard", "run"),
        ({"use": "tensorboard", "project": "p"}, "run"),
        ({"use": "tensorboard", "log_dir": "gs://bucket/logs"}, "run"),
        ({"use": "tensorboard", "log_dir": "../logs", "project": "p", "name": "n"}, "logs/p/n"),
        ("wandb", None),
    ],
)
def test_tensorboard_is_started_with_the_folder_of_the_event_file(
    tracker: Any, folder: str | None, tmp_path: Path
) -> None:
    job = read_job(small_run(tmp_path / "small"))
    trackers = parse_train_config({"steps": 1, "trackers": [tracker]}, "here").trackers
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, trackers=trackers))
    assert viewed_folder(tmp_path / "run", job) == (tmp_path / folder if folder else None)


def test_the_event_file_is_copied_to_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, said = fsspec.filesystem("memory"), list[str]()
    config = TrackerConfig(use="tensorboard", log_dir="memory://bucket/logs", name="first")
    run = small_run(tmp_path, trackers=[config])
    record_event(run, "log", 5, {"loss": 1.5})
    check_trackers(run, read_job(run).train.trackers, said.append)
    trackers = Trackers(run, read_job(run), said.append)
    trackers.update()
    [path] = files.find("/bucket/logs/first")
    first = files.cat_file(path)
    record_event(run, "log", 10, {"loss": 1.4})
    trackers.update()
    assert files.cat_file(path) == first, "it is written every half minute"
    trackers.close()
    assert files.cat_file(path) == (run / TENSORBOARD).read_bytes() != first
    monkeypatch.setattr("jprep.train.trackers.tensorboard.upload_file", _refuse)
    again = Trackers(run, read_job(run), said.append)
    again.update()
    again.close()
    assert "could not write to memory://bucket" in said[0] and "disabled until the next start" in said[1]


def _refuse(*_: object) -> None:
    raise MachineError("no permission to write")


@pytest.mark.parametrize(
    ("trackers", "message", "fix"),
    [
        (["tensorboard", {"use": "tensorboard", "project": "p"}], "given twice", "remove"),
        ([{"use": "wandb", "project": "a/b"}], "'a/b' cannot be the project", "none of /"),
        ([{"use": "tensorboard", "name": ".."}], "cannot be the name", "characters"),
        ([{"use": "mlflow", "mode": "online"}], "has no mode", "wandb"),
        ([{"use": "mlflow", "log_dir": "https://me:secret@host/mlflow"}], "mlflow has a password", "TRACKING_PASSWORD"),
        ([{"use": "wandb", "log_dir": "s3://bucket/x"}], "local folder", "online"),
        ([{"use": "wandb", "projekt": "x"}], "projekt", "did you mean 'project'?"),
        ([{"use": "tensorbord"}], "tensorbord", "tensorboard"),
    ],
)
def test_wrong_options_are_refused(trackers: list[Any], message: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_train_config({"task": "clm", "steps": 1, "trackers": trackers}, "[train]")
    assert fix in caught.value.fix and "secret" not in str(caught.value)


def test_a_missing_library_and_bucket_are_errors_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str) -> None:
        raise ConfigError("there is no bucket gs://missing", where=url)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MachineError, match="mlflow is not installed"):
        check_trackers(tmp_path, read_job(small_run(tmp_path, trackers=["mlflow"])).train.trackers, print)
    monkeypatch.setattr(check, "check_writable", refuse)
    config = TrackerConfig(use="tensorboard", log_dir="gs://missing/logs")
    with pytest.raises(ConfigError, match="no bucket"):
        check_trackers(tmp_path, read_job(small_run(tmp_path, trackers=[config])).train.trackers, print)


def test_a_bucket_that_cannot_be_reached_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(url: str) -> None:
        raise MachineError("cannot write gs://bucket: timed out") from TimeoutError()

    said: list[str] = []
    monkeypatch.setattr(check, "check_writable", unreachable)
    config = TrackerConfig(use="tensorboard", log_dir="gs://bucket/logs")
    check_trackers(tmp_path, read_job(small_run(tmp_path, trackers=[config])).train.trackers, said.append)
    assert "cannot reach gs://bucket/logs now" in said[0]
