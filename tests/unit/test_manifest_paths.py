"""Manifests may come from other people: a file that they name must lie in their folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.corpus.api import Corpus
from jprep.dataset.exports.base import DatasetExportManifest
from jprep.dataset.manifest import read_dataset
from jprep.engine.stage import Output, Receipt
from jprep.errors import ConfigError
from jprep.io.safe_names import inner_path
from jprep.tokenizer.card import read_card
from jprep.train.exporting.manifest import ModelExportManifest
from tests.fakes.small_dataset import SPLITS, lay_out, tokenizer

OUTSIDE = ["../../etc/x", "/etc/x", "..", "", ".", "a/../b", "a//b", "./a", "a/", "a\\b", "a\0b"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out(path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a file below"):
        inner_path(path)
    raw = {"path": path, "rows": 1, "sha256": ""}
    with pytest.raises(msgspec.ValidationError, match="not the path of a file below"):
        msgspec.convert(raw, Output)


@pytest.mark.parametrize("path", ["a", "documents/0000-a-000000.parquet", "..a", "日本", "a b"])
def test_a_path_that_leads_inside(path: str) -> None:
    assert inner_path(path) == Output(path, 1, "").path == path


def altered(manifest: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(manifest.read_bytes())
    change(content)
    del content["checksum"]
    manifest.write_text(json.dumps(content))


@pytest.mark.parametrize("part", ["parts", "reject_parts"])
@pytest.mark.parametrize("path", OUTSIDE[:2])
def test_a_corpus_that_names_files_outside(part: str, path: str, corpus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(corpus, tmp_path / "corpus")
    altered(folder / "corpus.json", lambda content: content[part][0].update(path=path))
    with pytest.raises(ConfigError, match=r"corpus.json cannot be read: .*not the path of a file below"):
        Corpus(folder)


def of_file(content: Any) -> None:
    content["splits"][0]["files"][0]["path"] = "../train.bin"


def of_split(content: Any) -> None:
    content["splits"][0]["name"] = "../train"


def of_part(content: Any) -> None:
    content["parts"] = [{"path": "/etc/x", "sha256": "", "documents": {}, "tokens": {}}]


@pytest.mark.parametrize("change", [of_file, of_split, of_part])
def test_a_dataset_that_names_files_outside(change: Callable[[Any], None], tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "dataset", SPLITS)
    altered(folder / "dataset.json", change)
    with pytest.raises(ConfigError, match=r"dataset.json cannot be read: .*not the path of a file below"):
        read_dataset(folder)


def test_a_tokenizer_that_names_files_outside(tmp_path: Path) -> None:
    folder = tokenizer(tmp_path / "tokenizer")
    altered(folder / "card.json", lambda content: content["files"].update({"../x": ""}))
    with pytest.raises(ConfigError, match=r"card.json cannot be read: .*not the path of a file below"):
        read_card(folder)


def test_exports_and_receipts_that_name_files_outside() -> None:
    output = {"path": "../x", "rows": 0, "sha256": ""}
    receipt = {"task": "", "digest": "", "fingerprint": "", "outputs": [output], "counts": {}, "rejects": {}}
    about: dict[str, Any] = {
        "jprep": "", "form": "", "options": {}, "dataset": {}, "dtype": "", "vocab_size": 1, "end": 0, "newline": 0,
        "splits": [], "further": [output],
    }  # fmt: skip
    special = {"vocab_size": 1}
    exported = {
        "jprep": "", "format": 1, "name": "", "task": "mlm", "backend": "", "step": 0, "dtype": "fp32", "parameters": 1,
        "special": special, "end": 0, "files": {"../x": ""},
    }  # fmt: skip
    for raw, kind in ((receipt, Receipt), (about, DatasetExportManifest), (exported, ModelExportManifest)):
        with pytest.raises(msgspec.ValidationError, match="not the path of a file below"):
            msgspec.convert(raw, kind)
