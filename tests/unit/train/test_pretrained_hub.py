"""Models and tokenizers by their names on a local Hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import ConfigError, JprepError
from jprep.hub.location import is_hub_name
from jprep.tokenizer import load_tokenizer
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.pretrained.location import check_init
from tests.fakes.hugging_face import weights, write_pytorch
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def section(rows: Path, init: str) -> dict[str, object]:
    return {"task": "classify", "data": [str(rows)], "model": {"init": init}, "steps": 1, "batch": 2,
            "labelled": {"length": 16}}  # fmt: skip


def build(rows: Path, init: str, tokenizer: str) -> Job:
    return build_job(parse_train_config(section(rows, init), "here"), "run", "torch", {}, Path(tokenizer))


def test_a_name_gives_the_same_job_as_the_folder(hub: HubServer, bert: Path, rows: Path) -> None:
    commit = hub.put("acme/bert", files(bert))
    changed = hub.put("acme/bert", {"model.safetensors": b"something else"})
    job = build(rows, f"acme/bert@{commit}", f"acme/bert@{commit}")
    assert job.fingerprint == build(rows, str(bert), str(bert)).fingerprint
    assert Path(job.train.model.init).name == commit != changed
    downloaded = load_tokenizer(f"acme/bert@{commit}")
    assert downloaded.encode("猫") == load_tokenizer(bert).encode("猫")
    assert (
        downloaded.card.name == f"acme/bert@{commit[:8]}" and f":acme/bert@{commit[:8]}|" in downloaded.card.signature
    )
    assert downloaded.card.fingerprint == load_tokenizer(bert).card.fingerprint
    assert load_tokenizer(bert).card.name == bert.name


def test_pickles_are_downloaded_only_without_safetensors(hub: HubServer, bert: Path, rows: Path) -> None:
    pickled = write_pytorch(bert / "pytorch_model.bin", weights(bert)).read_bytes()
    both, one = files(bert), {name: data for name, data in files(bert).items() if name != "model.safetensors"}
    found = Path(build(rows, hub_name(hub, "both", both), str(bert)).train.model.init)
    assert not (found / "pytorch_model.bin").exists()
    found = Path(build(rows, hub_name(hub, "one", one), str(bert)).train.model.init)
    assert (found / "pytorch_model.bin").read_bytes() == pickled


def hub_name(hub: HubServer, name: str, content: dict[str, bytes]) -> str:
    hub.put(f"acme/{name}", content)
    return f"acme/{name}"


def test_errors_come_before_the_weights(
    hub: HubServer, bert: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(name: str) -> None:
        check_init(parse_train_config(section(rows, name), "here"))

    hub.put("acme/bert", files(bert))
    hub.put("acme/private", files(bert), private=True)
    hub.put("acme/empty", {"a.txt": b""})
    hub.put("acme/other", {"config.json": b'{"model_type": "deberta", "vocab_size": 5}'})
    check("acme/bert")
    check("acme/private")
    with pytest.raises(ConfigError, match=r"there is no folder .acme/bart., and as a name on the Hub"):
        check("acme/bart")
    with pytest.raises(ConfigError, match="no such revision"):
        check("acme/bert@v9")
    with pytest.raises(ConfigError, match=r"no file config\.json"):
        check("acme/empty")
    with pytest.raises(ConfigError, match="no architecture for models of type 'deberta'"):
        check("acme/other")
    with pytest.raises(ConfigError, match="no file or folder"):
        check("no/such/path")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(JprepError, match=r"no such repository|token") as caught:
        check("acme/private")
    assert "token" in caught.value.fix
    assert not [one for one in hub.requests if "model.safetensors" in str(one)]


def test_an_old_name_without_an_organization_is_found_under_its_new_one(
    hub: HubServer, bert: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    commit = hub.put("google-bert/bert-base-uncased", files(bert))
    hub.moved["bert-base-uncased"] = "google-bert/bert-base-uncased"
    job = build(rows, "bert-base-uncased", "bert-base-uncased")
    assert job.fingerprint == build(rows, str(bert), str(bert)).fingerprint
    assert Path(job.train.model.init).name == commit
    for wrong in ("bert-base-uncase", "bert-base-uncase@main"):
        with pytest.raises(
            ConfigError, match=r"there is no folder 'bert-base-uncase.*, and as a name on the Hub"
        ) as said:
            load_tokenizer(wrong)
        assert said.value.fix.startswith("check the path; or for the Hub: check the name")
    (tmp_path / "elsewhere" / "bert-base-uncased").mkdir()
    with pytest.raises(ConfigError, match=r"there is no tokenizer in this folder|no finished tokenizer"):
        load_tokenizer("bert-base-uncased")


def test_paths_are_not_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("acme/bert", "acme/bert@main", "bert-base-uncased", "gpt2", "gpt2@main")
    assert all(map(is_hub_name, names))
    (tmp_path / "acme" / "bert").mkdir(parents=True)
    paths = (
        "acme/bert",
        "acme",
        "spm.model",
        "a/b/c",
        "/abs/path",
        "./bert",
        "../bert",
        "~/bert",
        "acme/model.safetensors",
        "acme/",
    )
    assert not any(map(is_hub_name, paths))
