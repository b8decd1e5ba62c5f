"""Options without effect are refused before anything is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run

LABELLED = 'name = "r"\n[train]\ntask = "classify"\ndata = ["rows.jsonl"]\nsteps = 3\n'


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("dataset", "inspect", "no-dataset", "--split", "validation"), "--split"),
        (("dataset", "inspect", "no-dataset", "--tokenizer", "t"), "--tokenizer"),
        (("dataset", "pack", "no-corpus", "--dry-run", "--json"), "--json"),
        (("dataset", "pack", "no-corpus", "--dry-run", "--restart"), "--restart"),
        (("dataset", "export", "no-dataset", "--format", "arrow", "-o", "out", "--workers", "2"), "--workers"),
        (("corpus", "export", "no-corpus", "--workers", "2"), "--workers"),
        (("corpus", "build", "r.toml", "--dry-run", "--json"), "--json"),
        (("corpus", "build", "r.toml", "--dry-run", "--restart"), "--restart"),
        (("tokenizer", "train", "no-corpus", "--dry-run", "--restart"), "--restart"),
        (("segmenter", "train", "--words", "r.toml", "-o", "m", "--teacher", "spaces"), "--teacher"),
        (("segmenter", "train", "--words", "r.toml", "-o", "m", "--set", "a=b"), "--set"),
        (("corpus", "build", "r.toml", "-o", "out", "--work", "w"), "--work"),
        (("train", "r.toml", "--dry-run", "--resume", "never"), "--resume"),
        (("train", "r.toml", "--dataset", "d"), "--dataset"),
    ],
)
def test_an_option_without_effect_is_refused(
    arguments: tuple[str, ...], option: str, tmp_path: Path, jprep: Run
) -> None:
    tmp_path.joinpath("r.toml").write_text(LABELLED)
    done = jprep(*arguments, code=2, cwd=tmp_path)
    assert f"{option} has no effect: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


def test_json_and_signature_exclude_each_other(jprep: Run) -> None:
    done = jprep("tokenizer", "evaluate", "t", "c", "--json", "--signature", code=2)
    assert "give either --json or --signature" in done.stderr
