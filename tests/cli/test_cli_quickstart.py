"""`jprep quickstart`: everything on the embedded sample."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Run, digests

WITHOUT = {"JPREP_BACKENDS": "/nowhere"}


def test_quickstart_without_a_backend_goes_as_far_as_it_can(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    shown = jprep("quickstart", cwd=tmp_path, env=WITHOUT).stdout
    assert "as text and as words:" in shown and "jprep corpus why" in shown
    assert len(shown.splitlines()) < 60, "short enough to be read"
    assert "no model is trained" in shown and "jprep backends install torch" in shown
    assert digests(tmp_path / "work/quickstart/corpus/documents") == digests(corpus / "documents")
    assert (tmp_path / "work/quickstart/dataset/dataset.json").exists()
    assert jprep("quickstart", cwd=tmp_path, env=WITHOUT).stdout == shown


@pytest.mark.soak
@pytest.mark.backends
@pytest.mark.skipif("JPREP_TORCH" not in os.environ, reason="JPREP_BACKENDS has no backend torch")
def test_quickstart_trains_a_model_that_recites_its_sample(tmp_path: Path, jprep: Run) -> None:
    shown = jprep("quickstart", cwd=tmp_path).stdout
    # How far each one goes depends on the processor.
    assert any(
        each in shown for each in ("琴川市 → (ことかわし", "澄原鉄道 → (すみはらてつどう", "霧見岳 → (きりみだけ")
    )
    export = tmp_path / "work/quickstart/runs/torch/export"
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= digests(export).keys()
    before = digests(tmp_path / "work")
    assert jprep("quickstart", cwd=tmp_path).stdout == shown
    # Its recipe is an ordinary one: all of it is done.
    jprep("run", "recipe.toml", "--work", tmp_path / "work", cwd=tmp_path / "work/quickstart/inputs")
    assert {name: digest for name, digest in digests(tmp_path / "work").items() if "runs" not in name} == {
        name: digest for name, digest in before.items() if "runs" not in name
    }
    assert digests(export) == {
        Path(name).name: digest for name, digest in before.items() if Path(name).parent.name == "export"
    }
