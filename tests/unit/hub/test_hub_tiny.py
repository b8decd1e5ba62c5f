"""Datasets of a local Hub at scale tiny: the first rows, or the embedded sample where the Hub cannot be reached."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep.corpus.download.parquet_head import HEAD_ROWS
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]

CLI = "from jprep.cli.main import main; main()"
SENTENCES = ["吾輩は猫である。", "名前はまだ無い。", "どこで生れたか頓と見当がつかぬ。"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run jprep in a new process: the client library reads its address when it is imported."""
    return subprocess.run([sys.executable, "-c", CLI, *words], cwd=folder, capture_output=True, text=True, check=False)


def put_novels(hub: HubServer, rows: int) -> None:
    buffer = io.BytesIO()
    texts = [f"{n}番目の文書。{SENTENCES[n % 3]}{SENTENCES[(n + 1) % 3]}" * 3 for n in range(rows)]
    pq.write_table(pa.table({"body": texts, "unused": ["x" * 50] * rows}), buffer, row_group_size=500)
    hub.put("acme/novels", {"data/train-00000.parquet": buffer.getvalue()}, kind="dataset")


def test_the_first_rows_of_a_dataset_are_used(hub: HubServer, tmp_path: Path) -> None:
    put_novels(hub, 3 * HEAD_ROWS)
    more = ["--input", "acme/novels", "--text-field", "body", "--segmenter", "none"]
    assert run(tmp_path, "init", "mine.toml", "--from", "hf", *more).returncode == 0
    tiny = ["run", "mine.toml", "--scale", "tiny", "--workers", "1", "--until", "corpus"]
    assert "the first megabytes of hf://datasets/acme/novels/" in run(tmp_path, *tiny, "--dry-run").stdout
    done = run(tmp_path, *tiny)
    assert done.returncode == 0, done.stderr
    [head] = (tmp_path / "downloads/beginnings").glob("*.parquet")
    stored = pq.read_table(head)
    assert stored.column_names == ["body"] and 0 < stored.num_rows <= HEAD_ROWS
    assert f"{stored.num_rows:,} documents" in done.stdout
    assert "downloading" not in run(tmp_path, *tiny).stderr


def test_without_a_network_the_sample_has_the_columns_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert run(tmp_path, "init", "mine.toml", "--from", "hf", "--segmenter", "none").returncode == 0
    tiny = ["run", "mine.toml", "--scale", "tiny", "--workers", "1", "--until", "dataset"]
    done = run(tmp_path, *tiny)
    assert done.returncode == 0, done.stderr
    assert "using the embedded sample instead" in done.stderr
    assert (tmp_path / "work/mine-tiny/dataset/dataset.json").exists()
    assert "using the embedded sample, as before" in run(tmp_path, *tiny).stderr


def test_a_dataset_that_does_not_exist_is_an_error(hub: HubServer, tmp_path: Path) -> None:
    run(tmp_path, "init", "mine.toml", "--from", "hf", "--input", "acme/none", "--segmenter", "none")
    done = run(tmp_path, "run", "mine.toml", "--scale", "tiny", "--workers", "1", "--until", "corpus")
    assert done.returncode == 2 and "acme/none" in done.stderr
