"""`jprep plan`: what a small recipe takes, and the comparison after it was run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import Run, digests


def test_a_recipe_is_planned_run_and_compared(sample: Path, tmp_path: Path, jprep: Run) -> None:
    folder = tmp_path / "plan"
    shutil.copytree(sample, folder)
    before = digests(folder)
    options = ("recipe.toml", "--until", "dataset", "--workers", "1,2", "--seconds", 1)
    found = json.loads(jprep("plan", *options, "--json", cwd=folder).stdout)
    assert [step["step"] for step in found["steps"]] == ["corpus", "tokenizer", "dataset"]
    assert [each["workers"] for each in found["scaling"]] == [1, 2]
    for step in found["steps"]:
        assert 0 < step["low"] <= step["wall"] <= step["high"]
        assert step["cpu"] > 0 and step["files"] > 0 and step["disk"] >= step["result"] > 0
        assert {stage["limit"] for stage in step["stages"]}
    assert {each["name"]: each["factor"] for each in found["inputs"]} == {"sample": 1.0, "web": 1.0}
    assert digests(folder).keys() - before.keys() == {"work/quickstart/plan.json"}  # the sample's outputs are deleted

    text = jprep("plan", *options, cwd=folder)
    assert "limited by" in text.stdout and "speed-up" in text.stdout and "jprep run recipe.toml" in text.stdout

    jprep("run", "recipe.toml", "--until", "dataset", "--workers", 1, cwd=folder)
    compared = json.loads(jprep("plan", *options, "--json", cwd=folder).stdout)["comparison"]
    steps = {each["name"]: each for each in compared}
    assert {
        "corpus",
        "tokenizer",
        "dataset",
        "corpus/words",
        "tokenizer/counting",
        "dataset/committing",
    } <= steps.keys()
    for name in ("corpus", "tokenizer", "dataset"):
        planned, actual = steps[name]["result"]
        assert abs(planned / actual - 1) < 0.35, name  # so small, manifests and locks count
        assert all(value > 0 for value in steps[name]["cpu"])
    assert "planned for 1 workers" in jprep("plan", *options, cwd=folder).stdout


def test_a_plan_needs_sources_and_numbers(sample: Path, tmp_path: Path, jprep: Run) -> None:
    done = jprep("plan", sample / "recipe.toml", "--workers", "2,x", code=2, cwd=tmp_path)
    assert "expected a number" in done.stderr
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('name = "none"\n[tokenizer]\nvocab_size = 1000\n')
    assert "corpus" in jprep("plan", recipe, code=2, cwd=tmp_path).stderr
