"""`jprep convert`: which converter a checkpoint gets, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import ConfigError
from jprep.train.exporting import conversion
from jprep.train.exporting.conversion import convert, find_prefix, to_fairseq


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(conversion, "_run", lambda backend, arguments: found.append((backend, arguments)) or 0)
    return found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "bert_model.ckpt.index").touch()
    (tmp_path / "bert_model.ckpt.data-00000-of-00001").touch()
    return tmp_path / "bert_model.ckpt"


def test_a_prefix_a_file_and_a_folder_name_the_same_checkpoint(checkpoint: Path) -> None:
    for given in (checkpoint, checkpoint.with_name("bert_model.ckpt.index"), checkpoint.parent):
        assert find_prefix(given) == checkpoint
    (checkpoint.parent / "other.index").touch()
    with pytest.raises(ConfigError, match="there are 2 checkpoints"):
        find_prefix(checkpoint.parent)
    with pytest.raises(ConfigError, match="no checkpoint that jprep converts"):
        find_prefix(checkpoint.parent / "nowhere")


def test_each_kind_has_its_converter_and_options(checkpoint: Path, tmp_path: Path, calls: list[object]) -> None:
    out, model = tmp_path / "out", Path("checkpoint_best.pt")
    convert(checkpoint, out, {"part": "generator", "tokenizer": None})
    convert(model, out, {"tokenizer": Path("tok"), "dict": Path("dict.txt"), "config": None})
    assert calls == [
        ("keras", [str(checkpoint), str(out), "--part", "generator"]),
        ("fairseq-xla", ["from-fairseq", str(model), "tok", str(out), "--dict", "dict.txt"]),
    ]
    with pytest.raises(ConfigError, match="--tokenizer is not for a checkpoint of TensorFlow"):
        convert(checkpoint, out, {"tokenizer": Path("tok")})
    with pytest.raises(ConfigError, match="--part is not for a checkpoint of fairseq"):
        convert(model, out, {"tokenizer": Path("tok"), "part": "generator"})
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        convert(model, out, {})


def test_an_export_for_fairseq_converts_the_exported_model(calls: list[object]) -> None:
    assert to_fairseq(Path("run/export"), Path("out")) == 0
    assert calls == [("fairseq-xla", ["to-fairseq", "run/export", "out"])]
