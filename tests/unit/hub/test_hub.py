"""Downloads from and uploads to a local Hub."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jprep.errors import ConfigError, DamagedError, MachineError
from jprep.hub import check_access, check_name, commit_of, download, looks_like_name, upload
from jprep.hub.client import UnavailableError
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]

FILES = {"config.json": b'{"model_type": "bert"}', "model.safetensors": bytes(range(256)) * 40, "sub/a.txt": b"a"}


def folder_of(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def test_a_download_has_the_files_and_its_commit(hub: HubServer) -> None:
    first = hub.put("acme/bert", FILES)
    hub.put("acme/bert", {"config.json": b"{}"})
    folder = download("acme/bert", patterns=["*.json", "*.safetensors"])
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "config.json").read_bytes() == b"{}"
    assert commit_of(folder) == hub.repo("acme/bert").commits[-1].oid
    older = download("acme/bert", revision=first)
    assert commit_of(older) == first
    assert (older / "config.json").read_bytes() == FILES["config.json"]
    assert commit_of(folder.parent) == ""


def test_only_the_files_that_are_asked_for_are_looked_at(hub: HubServer) -> None:
    hub.put("acme/bert", FILES)
    weights = (download("acme/bert") / "model.safetensors").resolve()
    weights.write_bytes(b"damaged")
    assert (download("acme/bert", patterns=["*.json", "sub/*"]) / "config.json").exists()
    with pytest.raises(DamagedError, match="safetensors"):
        download("acme/bert", patterns=["model*"])
    with pytest.raises(ConfigError, match=r"no file \*\.onnx"):
        download("acme/bert", patterns=["*.onnx"])


def test_a_second_download_sends_no_file_again(hub: HubServer) -> None:
    hub.put("acme/bert", FILES)
    download("acme/bert")
    hub.requests.clear()
    download("acme/bert")
    assert not hub.sent("GET", "*/resolve/*")


def test_a_download_offline_comes_from_the_cache(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.put("acme/bert", FILES)
    folder = download("acme/bert")
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert download("acme/bert") == folder
    with pytest.raises(MachineError, match="HF_HUB_OFFLINE"):
        download("acme/other")
    with pytest.raises(MachineError, match="HF_HUB_OFFLINE"):
        check_access("acme/bert")
    assert not hub.requests


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_damaged_file_of_the_cache_is_found(hub: HubServer, name: str) -> None:
    hub.put("acme/bert", FILES)
    folder = download("acme/bert")
    path = (folder / name).resolve()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedError, match=name):
        download("acme/bert")


def test_errors_of_downloads(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.put("acme/bert", FILES)
    hub.put("secret/bert", FILES, private=True)
    hub.put("meta/gated", FILES, gated=True)
    for name in ("acme/nothing", "secret/bert"):
        with pytest.raises(ConfigError, match="no such repository"):
            download(name)
    with pytest.raises(ConfigError, match="no such revision"):
        download("acme/bert", revision="v9")
    with pytest.raises(ConfigError, match="no file"):
        download("acme/bert", patterns=["*.onnx"])
    with pytest.raises(ConfigError, match="neither a folder nor a name"):
        download("../bert")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ConfigError, match="does not accept this token"):
        download("acme/bert")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ConfigError, match="gated"):
        download("meta/gated")


@pytest.mark.parametrize("token", ["hf_se\ncret", "hf_sécret", "hf_se\x1bcret"])
def test_a_malformed_token_is_not_shown(hub: HubServer, token: str) -> None:
    hub.put("acme/bert", FILES)
    for call in (download, check_access):
        with pytest.raises(ConfigError, match="characters that no token has") as refused:
            call("acme/bert", token=token)  # type: ignore[operator]
        assert "cret" not in str(refused.value)


def test_no_network_is_an_error_of_the_machine(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:  # it does not listen, and nobody else can meanwhile
        deaf.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        with pytest.raises(UnavailableError, match="cannot be reached"):
            download("acme/bert")
        with pytest.raises(UnavailableError, match="cannot be reached"):
            check_access("acme/bert")


def test_the_cache_serves_while_the_hub_is_down(hub: HubServer, caplog: pytest.LogCaptureFixture) -> None:
    hub.put("acme/bert", FILES)
    folder = download("acme/bert")
    hub.fail("GET", "/api/models/acme/bert*", times=9, status=503)
    assert download("acme/bert") == folder
    assert commit_of(folder) in caplog.text


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_an_upload_makes_a_private_repository_with_the_files(hub: HubServer, tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path / "export", FILES)
    done = upload(folder, "acme/new", kind=kind, message="step 5")  # type: ignore[arg-type]
    repo = hub.repo("acme/new", kind)
    assert {path: file.data for path, file in repo.files.items() if path != ".gitattributes"} == FILES
    assert (done.commit, repo.commits[-1].message, repo.private, done.changed) == (
        repo.commits[-1].oid,
        "step 5",
        True,
        True,
    )
    assert done.url.endswith("/datasets/acme/new" if kind == "dataset" else "/acme/new")
    assert download("acme/new", kind=kind, patterns=["*.json"]).name == done.commit  # type: ignore[arg-type]


def test_nothing_is_sent_twice(hub: HubServer, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "export", FILES)
    upload(folder, "acme/new")
    hub.requests.clear()
    again = upload(folder, "acme/new")
    assert not again.changed
    assert not hub.sent("PUT", "*") and not hub.sent("POST", "*/commit/*")
    (folder / "config.json").write_bytes(b"{}")
    assert upload(folder, "acme/new").changed
    assert not hub.sent("PUT", "*")
    assert hub.repo("acme/new").files["config.json"].data == b"{}"


def test_an_interrupted_upload_continues_with_the_missing_files(hub: HubServer, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "export", FILES | {"b.safetensors": b"b" * 99})
    hub.fail("POST", "*/commit/*", status=500)
    with pytest.raises(UnavailableError):
        upload(folder, "acme/new", pauses=())
    assert len(hub.sent("PUT", "*")) == 2
    hub.requests.clear()
    upload(folder, "acme/new", pauses=())
    assert not hub.sent("PUT", "*")
    assert {"b.safetensors", "model.safetensors"} <= hub.repo("acme/new").files.keys()


def test_transient_errors_are_retried(hub: HubServer, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "export", FILES)
    hub.fail("GET", "/api/whoami-v2", status=503)
    hub.fail("POST", "*/commit/*", status=0)
    upload(folder, "acme/new", pauses=(0, 0))
    assert hub.repo("acme/new").files.keys() >= FILES.keys()


def test_large_files_are_sent_in_parts(hub: HubServer, tmp_path: Path) -> None:
    hub.part_bytes = 4096
    upload(folder_of(tmp_path / "export", FILES), "acme/new")
    assert len(hub.sent("PUT", "/lfs/*/*")) == 3
    assert hub.repo("acme/new").files["model.safetensors"].data == FILES["model.safetensors"]


def test_obsolete_files_are_deleted_and_others_stay(hub: HubServer, tmp_path: Path) -> None:
    hub.put("acme/new", {"old.arrow": b"1", "notes.md": b"mine", "model.safetensors": b"2"})
    obsolete = ["old.arrow", "never-there.arrow", "model.safetensors"]
    upload(folder_of(tmp_path / "export", FILES), "acme/new", files=["model.safetensors"], obsolete=obsolete)
    assert hub.repo("acme/new").files.keys() == {".gitattributes", "notes.md", "model.safetensors"}
    assert not hub.repo("acme/new").private  # it existed


def test_access_is_checked_before_any_work(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.put("acme/bert", FILES)
    hub.put("meta/bert", FILES)
    hub.add_user("alice", "hf_read", orgs=["acme"], role="read")
    assert check_access("acme/bert") is True
    assert check_access("acme/new") is False
    assert not hub.has("acme/new")
    check_access("acme/new", create=True)
    assert hub.has("acme/new")
    for name in ("meta/bert", "meta/new"):
        with pytest.raises(ConfigError, match="no permission to upload"):
            check_access(name)
    with pytest.raises(ConfigError, match="no permission to upload"):
        check_access("meta/new", create=True)
    with pytest.raises(ConfigError, match="reading only"):
        check_access("acme/bert", token="hf_read")
    with pytest.raises(ConfigError, match="does not accept this token"):
        check_access("acme/bert", token="hf_wrong")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ConfigError, match="needs a token"):
        check_access("acme/bert")


def test_names() -> None:
    for name in (
        "bert",
        "",
        "a/b/c",
        "a/",
        "/b",
        "a b/c",
        "a/b..c",
        "a/b--c",
        "a/-b",
        "a/b.git",
        "a/" + "b" * 96,
        "東/京",
    ):
        with pytest.raises(ConfigError, match="cannot be the name"):
            check_name(name, "--to")
    check_name("my-org/bert_base.v2", "--to")
    assert looks_like_name("bert-base-uncased")
    assert not looks_like_name("./bert")
