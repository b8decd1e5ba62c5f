"""Fixtures shared by the tests of training: processes, a model, labelled rows."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep.train.exporting import weights
from tests.fakes.hugging_face import write_bert


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list of processes that are killed at the end of the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT in Hugging Face form."""
    return write_bert(tmp_path / "bert")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Labelled rows of two classes."""
    path = tmp_path / "rows.jsonl"
    lines = [
        json.dumps({"text": "吾輩は猫である。" * (1 + at % 2), "label": ["bad", "good"][at % 2]}) for at in range(8)
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that copies the weights instead of loading a framework."""

    def work(name: str, run: Path, checkpoint: Path, folder: Path) -> None:
        shutil.copyfile(checkpoint / "model.safetensors", folder / "model.safetensors")

    monkeypatch.setattr(weights, "_run_worker", work)
