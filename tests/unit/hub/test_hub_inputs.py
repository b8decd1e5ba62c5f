"""Inputs of a corpus from datasets of a local Hub."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep.corpus.store import read_manifest
from jprep.dataset.manifest import read_dataset
from tests.conftest import ROOT
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]

RECIPE = ROOT / "data_recipes" / "roberta-tensorflow.toml"
CLI = "from jprep.cli.main import main; main()"
WIKITEXT, CONFIG = "Salesforce/wikitext", "wikitext-103-raw-v1"


def table(lines: list[str]) -> bytes:
    """Return a Parquet file with a column of texts."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": lines}), buffer)
    return buffer.getvalue()


def put_wikitext(hub: HubServer) -> dict[str, int]:
    """Put the recipe's dataset on the Hub, with two files for the train split; return the documents of each split."""
    lines = {
        split: (ROOT / "data_recipes" / f"english-{split}.txt").read_text().splitlines()
        for split in ("train", "validation", "test")
    }
    files = {f"{split}-00000-of-00001.parquet": table(["", *found]) for split, found in lines.items()}
    half = len(lines["train"]) // 2
    del files["train-00000-of-00001.parquet"]
    files |= {"train-00000-of-00002.parquet": table(lines["train"][:half])}
    files |= {"train-00001-of-00002.parquet": table(lines["train"][half:])}
    hub.put(WIKITEXT, {f"{CONFIG}/{name}": data for name, data in files.items()}, kind="dataset")
    return {split: len(found) for split, found in lines.items()}


def build(work: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the recipe until its dataset, in a process: the client library reads its address when it is imported."""
    sizes = ("--set", "tokenizer.vocab_size=800", "--set", "tokenizer.alphabet=80")
    command = ["run", str(RECIPE), "--work", str(work), "--until", "dataset", "--workers", "1", *sizes, *options]
    return subprocess.run([sys.executable, "-c", CLI, *command], capture_output=True, text=True, check=False)


def test_a_recipe_reads_the_splits_of_a_dataset(hub: HubServer, tmp_path: Path) -> None:
    expected = put_wikitext(hub)
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    dataset = read_dataset(tmp_path / "roberta-tensorflow" / "dataset")
    assert {split.name: split.documents for split in dataset.splits} == expected


def test_a_dataset_with_conditions_needs_a_token(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_wikitext(hub)
    hub.repo(WIKITEXT, kind="dataset").gated = True
    monkeypatch.setenv("HF_TOKEN", "")
    done = build(tmp_path)
    assert done.returncode == 3
    assert f"no permission to read in hf://datasets/{WIKITEXT}: " in done.stderr and "HF_TOKEN" in done.stderr


def test_a_missing_dataset_is_named(hub: HubServer, tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 2
    assert f"hf://datasets/{WIKITEXT}/{CONFIG}/train-*.parquet" in done.stderr


def test_the_commit_is_in_the_manifest_and_not_in_the_fingerprint(hub: HubServer, tmp_path: Path) -> None:
    put_wikitext(hub)
    first = build(tmp_path / "a")
    assert first.returncode == 0, first.stderr
    manifest = read_manifest(tmp_path / "a" / "roberta-tensorflow" / "corpus")
    commits = {file["commit"] for source in manifest.sources for file in source["files"]}
    assert commits == {hub.repo(WIKITEXT, kind="dataset").commits[-1].oid}
    hub.put(WIKITEXT, {"other.txt": b"x"}, kind="dataset")
    assert build(tmp_path / "b").returncode == 0
    later = read_manifest(tmp_path / "b" / "roberta-tensorflow" / "corpus")
    assert later.fingerprint == manifest.fingerprint
    assert {file["commit"] for source in later.sources for file in source["files"]}.isdisjoint(commits)
