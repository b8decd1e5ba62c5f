"""TensorBoard, Weights & Biases (offline) and MLflow (in a folder) read what the trackers write.

`make test-backends` installs the libraries; without them these tests are skipped.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.job.tracking import TrackerConfig
from jprep.train.run.directory import read_job
from jprep.train.run.events import record_event
from jprep.train.trackers.check import check_trackers
from jprep.train.trackers.follow import Trackers
from tests.fakes.small_run import small_run

pytestmark = pytest.mark.backends

NAMED: dict[str, Any] = {"project": "a project", "name": "first", "tags": ["bert", "ja"]}


def log(run: Path, first: int, last: int) -> None:
    """Record a worker that starts after a step, logs each further step, and validates at the last one."""
    record_event(run, "start", first)
    for step in range(first + 1, last + 1):
        record_event(run, "log", step, {"loss": 1 / step, "lr": 0.1})
    record_event(run, "validation", last, {"loss": 0.5})


def track(run: Path) -> None:
    """Let the trackers follow a run from its beginning, as each call of `jprep train` does."""
    said: list[str] = []
    trackers = Trackers(run, read_job(run), said.append)
    trackers.update()
    trackers.close()
    assert said == []


def resumed_twice(folder: Path, config: TrackerConfig) -> Path:
    """Track a run that dies after step 7, resumes from 4, and is resumed from 8 by a second call."""
    run = small_run(folder, trackers=[config])
    log(run, 0, 7)
    log(run, 4, 8)
    track(run)
    log(run, 8, 12)
    track(run)
    return run


def test_tensorboard_reads_the_event_file(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    run = resumed_twice(tmp_path, TrackerConfig(use="tensorboard", log_dir=str(tmp_path / "logs"), **NAMED))
    found = EventAccumulator(str(tmp_path / "logs" / "a project" / "first"))
    found.Reload()
    assert {"train/loss", "train/learning_rate", "train/epoch", "eval/loss"} <= set(found.Tags()["scalars"])
    assert [one.step for one in found.Scalars("train/loss")] == list(range(1, 13)), "each step once, in order"
    assert [one.value for one in found.Scalars("train/loss")] == pytest.approx([1 / step for step in range(1, 13)])
    assert [one.step for one in found.Scalars("eval/loss")] == [8, 12], "that of step 7 is discarded"
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    session = HParamsPluginData.FromString(content).session_start_info
    assert session.hparams["optimizer.lr"].number_value == read_job(run).train.optimizer.lr
    assert session.hparams["task"].string_value == "clm" and session.group_name == "first"
    [text] = found.Tensors("jprep/run")
    assert b"**tags**: bert, ja" in text.tensor_proto.string_val[0]


def wandb_records(path: Path) -> Iterator[Any]:
    """Yield the records of an offline run, whose file is a log of LevelDB: blocks of 32 KiB with parts of records."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        room = -place % 32768
        if 0 < room < 7:
            place += room
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(record)
            record = b""


def test_wandb_reads_offline_runs_without_repeated_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = resumed_twice(tmp_path, TrackerConfig(use="wandb", entity="team", **NAMED))
    wandb.teardown()  # its own process writes the files, and may still do so after finish()
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) == 2, "one folder for each call, for `wandb sync`"
    records = [record for path in files for record in wandb_records(path)]
    about = [record.run for record in records if record.HasField("run")]
    assert {(one.run_id, one.project, one.entity, one.display_name) for one in about} == {
        (f"small-{read_job(run).fingerprint[:8]}", "a project", "team", "first")
    }
    assert list(about[0].tags) == ["bert", "ja"]
    config = {item.key: json.loads(item.value_json) for item in about[0].config.update}
    assert config["optimizer"]["lr"] == read_job(run).train.optimizer.lr and config["model"]["model_type"] == "linear"
    rows = [record.history for record in records if record.HasField("history")]
    items = [{"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row.item} for row in rows]
    assert [row["_step"] for row in items] == list(range(1, 13))
    assert items[7]["eval/loss"] == 0.5 and items[11]["train/loss"] == pytest.approx(1 / 12)


def test_mlflow_continues_its_run_without_repeated_steps(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from jprep.train.trackers.mlflow import mlflow_client

    config = TrackerConfig(use="mlflow", entity="me", **NAMED | {"tags": ["bert", "lang=ja"]})
    run = resumed_twice(tmp_path, config)
    client = mlflow_client((run / "mlruns").as_uri())
    [found] = client.search_runs([client.get_experiment_by_name("a project").experiment_id])
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert found.data.tags.items() >= {"bert": "true", "lang": "ja", "mlflow.user": "me"}.items()
    assert found.data.params["optimizer.lr"] == str(read_job(run).train.optimizer.lr)
    steps = [one.step for one in client.get_metric_history(found.info.run_id, "train/loss")]
    assert sorted(steps) == list(range(1, 13))
    assert [one.step for one in client.get_metric_history(found.info.run_id, "eval/loss")] == [7, 8, 12]


class WandbServer(BaseHTTPRequestHandler):
    """Answers the question who is logged in: with the right key an account, else 401."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        key = base64.b64decode(self.headers.get("authorization", "Basic ").removeprefix("Basic ")).decode()
        known = key == f"api:{'a' * 40}"
        teams, no_keys = {"edges": [{"node": {"name": "team"}}]}, {"edges": []}
        viewer = dict.fromkeys(("name", "username", "entity"), "me") | {"teams": teams, "apiKeys": no_keys}
        viewer |= {"id": "1", "email": "", "flags": "{}", "admin": False, "deletedAt": None}
        body = {"data": {"viewer": viewer}} if known else {"errors": [{"message": "user is not logged in"}]}
        self.send_response(200 if known else 401)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def wandb_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), WandbServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HOME", str(tmp_path))  # no netrc of a user
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield
    server.shutdown()


@pytest.mark.parametrize(
    ("key", "entity", "kind", "message"),
    [
        ("", "", MachineError, "no API key|No API key"),
        ("b" * 40, "", MachineError, "refuses the credentials"),
        ("a" * 40, "other", ConfigError, "cannot log to 'other'"),
        ("a" * 40, "team", None, ""),
    ],
)
def test_wandb_s_credentials_are_checked_before_any_work(
    key: str, entity: str, kind: type[Exception] | None, message: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb_server: None,
) -> None:  # fmt: skip
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_API_KEY", key) if key else monkeypatch.delenv("WANDB_API_KEY", raising=False)
    wandb.teardown()
    said: list[str] = []
    job = read_job(small_run(tmp_path, trackers=[TrackerConfig(use="wandb", mode="online", entity=entity)]))
    if kind is None:
        check_trackers(tmp_path, job.train.trackers, said.append)
        assert said == []
    else:
        with pytest.raises(kind, match=message):
            check_trackers(tmp_path, job.train.trackers, said.append)


def test_an_mlflow_server_that_does_not_answer_is_an_error_before_any_work(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    config, begun = TrackerConfig(use="mlflow", log_dir="http://127.0.0.1:9"), time.monotonic()
    with pytest.raises(MachineError, match="MLflow cannot be used"):
        check_trackers(tmp_path, read_job(small_run(tmp_path, trackers=[config])).train.trackers, print)
    assert time.monotonic() - begun < 60
