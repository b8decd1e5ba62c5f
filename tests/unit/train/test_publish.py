"""Uploads of finished outputs to a local Hub, by `jprep push` and in the background of a run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from jprep.cli.main import cli
from jprep.dataset.exports import export_dataset
from jprep.dataset.exports.base import ExportOptions
from jprep.errors import ConfigError, DamagedError
from jprep.hub import download
from jprep.tokenizer.card import read_card, write_card
from jprep.train.exporting import export
from jprep.train.exporting.manifest import read_export
from jprep.train.exporting.output_folder import file_hashes
from jprep.train.job.config import parse_train_config
from jprep.train.run.directory import read_job
from jprep.train.run.events import record_event
from jprep.train.uploads import push as push_module
from jprep.train.uploads.publish import find_publication, publish
from jprep.train.uploads.push import LastPush, Pusher, check_destination
from tests.fakes.trained_run import save, trained_run
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]

pytestmark = pytest.mark.usefixtures("copying")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return export(trained_run(tmp_path), tmp_path / "export")


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["push", *map(str, arguments)])


def files_of(hub: HubServer, name: str, kind: str = "model") -> dict[str, bytes]:
    return {path: file.data for path, file in hub.repo(name, kind).files.items() if path != ".gitattributes"}


def test_a_model_export_is_uploaded_with_its_card(hub: HubServer, exported: Path) -> None:
    (exported / "notes.txt").write_text("mine")
    done = invoke(exported, "--to", "acme/small")
    assert done.exit_code == 0, done.output
    names = {*read_export(exported).files, "export.json"}
    assert files_of(hub, "acme/small") == {name: (exported / name).read_bytes() for name in names}
    assert "README.md" in names
    assert "notes.txt" in done.stderr
    assert hub.repo("acme/small").private
    assert hub.repo("acme/small").commits[-1].message == "Upload small, step 10 with jprep"
    hub.requests.clear()
    again = json.loads(invoke(exported, "--to", "acme/small", "--json").stdout)
    assert again["changed"] is False
    assert not hub.sent("PUT", "*")


def test_what_was_uploaded_is_what_a_download_gives(hub: HubServer, exported: Path) -> None:
    done = publish(exported, "acme/small", private=False)
    folder = download("acme/small")
    assert folder.name == done.commit
    assert find_publication(folder).what == "model export"
    assert not hub.repo("acme/small").private


def test_a_tokenizer_is_uploaded(hub: HubServer, tmp_path: Path) -> None:
    trained_run(tmp_path)
    folder = tmp_path / "tokenizer"
    (folder / "README.md").write_text("# small")
    write_card(folder, msgspec.structs.replace(read_card(folder), files=file_hashes(folder, known=["card.json"])))
    assert invoke(folder, "--to", "acme/tok", "--public").exit_code == 0
    assert {"tokenizer.json", "card.json", "README.md"} <= files_of(hub, "acme/tok").keys()
    assert not hub.repo("acme/tok").private


def test_a_dataset_export_is_uploaded_without_shards_of_an_earlier_one(hub: HubServer, tmp_path: Path) -> None:
    trained_run(tmp_path)
    out = tmp_path / "out"
    export_dataset(tmp_path / "dataset", None, "arrow", out)
    publish(out, "acme/data")
    assert files_of(hub, "acme/data", "dataset").keys() == set(find_publication(out).names)
    hub.put("acme/data", {"LICENSE": b"mine"}, kind="dataset")
    export_dataset(tmp_path / "dataset", None, "tfrecord", tmp_path / "tf", ExportOptions(length=16))
    publish(tmp_path / "tf", "acme/data")
    names = {*find_publication(tmp_path / "tf").names, "LICENSE"}
    assert files_of(hub, "acme/data", "dataset").keys() == names


def test_a_dry_run_checks_everything_and_sends_nothing(hub: HubServer, exported: Path) -> None:
    done = invoke(exported, "--to", "acme/small", "--dry-run")
    assert done.exit_code == 0
    assert "new, private" in done.stdout and "model.safetensors" in done.stdout
    assert not hub.has("acme/small")
    assert not [one for one in hub.requests if one.method != "GET"]
    assert "no permission to upload" in str(invoke(exported, "--to", "meta/small", "--dry-run").exception)


def test_a_damaged_file_is_found_before_anything_is_sent(hub: HubServer, exported: Path) -> None:
    with (exported / "model.safetensors").open("r+b") as file:
        file.write(b"?")
    with pytest.raises(DamagedError):
        publish(exported, "acme/small")
    assert not hub.has("acme/small")


def test_what_cannot_be_uploaded_is_refused_before_any_request(hub: HubServer, tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    for folder, hint in (
        (run, "jprep export"),
        (tmp_path / "dataset", "jprep dataset export"),
        (tmp_path / "no", "give"),
    ):
        done = invoke(folder, "--to", "acme/small")
        assert done.exception.__class__ is ConfigError
        assert hint in done.exception.fix  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="cannot be the name"):
        publish(tmp_path / "tokenizer", "small")
    assert not hub.requests


def checkpoint_event(run: Path, step: int) -> None:
    record_event(run, "checkpoint", step, {"seconds": 0.1})


def pushing_run(folder: Path, **push: Any) -> Path:
    return trained_run(folder, push={"to": "acme/small"} | push)


def wait(pusher: Pusher) -> None:
    while pusher._busy():
        time.sleep(0.01)


def last(run: Path) -> LastPush:
    return LastPush(**json.loads((run / "push.json").read_bytes()))


def test_every_second_checkpoint_is_uploaded(hub: HubServer, tmp_path: Path) -> None:
    run, said = pushing_run(tmp_path, every=2), []
    pusher = Pusher(run, read_job(run), said.append)
    pusher.poll()
    checkpoint_event(run, 5)
    pusher.poll()
    assert not pusher._busy() and not hub.has("acme/small")
    checkpoint_event(run, 10)
    pusher.poll()
    wait(pusher)
    assert last(run).step == 10
    assert hub.repo("acme/small").commits[-1].message == "Upload small, step 10, with jprep"
    assert said == [f"uploaded step 10 to {hub.url}/acme/small"]
    assert not (run / "push").exists()
    assert read_job(run).fingerprint == read_job(trained_run(tmp_path / "other")).fingerprint


@pytest.mark.parametrize(("seconds", "saved"), [(0.0, False), (3600.0, True)])
def test_a_failed_upload_is_reported_and_tried_again(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, saved: bool
) -> None:
    """It is tried again after some time, or when the next is due."""
    monkeypatch.setattr(push_module, "RETRY_SECONDS", seconds)
    run, said = pushing_run(tmp_path, every=1), []
    pusher = Pusher(run, read_job(run), said.append)
    pusher.poll()
    checkpoint_event(run, 10)
    hub.fail("POST", "*/commit/*", times=1, status=403)
    pusher.poll()
    wait(pusher)
    assert "the upload of step 10 to acme/small failed" in said[0]
    assert not (run / "push.json").exists()
    save(run, 15, 3.0)
    if saved:
        pusher.poll()
        assert not pusher._busy()
        checkpoint_event(run, 15)
    pusher.poll()
    wait(pusher)
    assert last(run).step == 15


def test_the_end_of_a_run_is_uploaded_once(hub: HubServer, tmp_path: Path) -> None:
    run, said = pushing_run(tmp_path, dtype="bf16"), []
    for _ in range(2):
        Pusher(run, read_job(run), said.append).finish(complete=True, stopped=lambda: False)
    assert [line for line in said if line.startswith("uploaded")] == [f"uploaded step 10 to {hub.url}/acme/small"]
    assert json.loads(files_of(hub, "acme/small")["export.json"])["dtype"] == "bf16"
    assert len(hub.sent("POST", "*/commit/*")) == 1


def test_a_run_that_failed_or_was_stopped_uploads_nothing(hub: HubServer, tmp_path: Path) -> None:
    run, said = pushing_run(tmp_path), []
    Pusher(run, read_job(run), said.append).finish(complete=False, stopped=lambda: False)
    Pusher(run, read_job(run), said.append).finish(complete=True, stopped=lambda: True)
    assert not hub.requests


def test_a_failed_last_upload_names_the_command_that_does_it(hub: HubServer, tmp_path: Path) -> None:
    run, said = pushing_run(tmp_path), []
    hub.fail("POST", "/api/repos/create", status=403)
    Pusher(run, read_job(run), said.append).finish(complete=True, stopped=lambda: False)
    assert f"jprep push {run / 'export'} --to acme/small" in said[-1]


def test_the_destination_is_checked_before_training(hub: HubServer, tmp_path: Path) -> None:
    push, said = read_job(pushing_run(tmp_path)).train.push, []
    check_destination(push, said.append)
    assert hub.has("acme/small")
    hub.fail("GET", "/api/whoami-v2", times=1, status=503)
    check_destination(push, said.append)
    assert "tried again later" in said[0]
    hub.add_user("bob", "hf_alice")
    with pytest.raises(ConfigError, match="no permission to upload"):
        check_destination(push, said.append)
    with pytest.raises(ConfigError, match="cannot be the name"):
        parse_train_config({"steps": 1, "push": {"to": "small"}}, "here")


def test_every_request_of_a_push_is_retried(hub: HubServer, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.io.retry.time.sleep", lambda seconds: None)
    hub.fail_every(7)
    for step in range(3):
        (exported / "README.md").write_text(f"---\nlanguage: ja\n---\n{step}")
        assert publish(exported, "acme/small").changed
    assert len(hub.repo("acme/small").commits) == 4
