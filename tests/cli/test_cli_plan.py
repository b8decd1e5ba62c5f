"""`jprep plan`: what a small recipe takes, and the comparison after it was run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import Distribution, Run, digests
from tests.fakes.numpy_backend import offer


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
    assert "limited by" in text.stdout and "speed-up" in text.stdout
    assert "jprep run recipe.toml --until dataset --workers" in text.stdout

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
    assert "planned for 1 worker," in jprep("plan", *options, cwd=folder).stdout


def test_an_extension_may_have_fewer_ids_than_the_text_has_characters(sample: Path, tmp_path: Path, jprep: Run) -> None:
    folder = tmp_path / "plan"
    shutil.copytree(sample, folder)
    options = ("recipe.toml", "--until", "tokenizer", "--seconds", 1)
    small = ("--set", "tokenizer.vocab_size=400")
    assert "vocab_size is too small" in jprep("plan", *options, *small, cwd=folder, code=2).stderr
    extends = ("--set", 'tokenizer.extends="base"')
    assert "tokenizer" in jprep("plan", *options, *small, *extends, cwd=folder).stdout


def test_what_does_not_fit_is_not_recommended(
    sample: Path, tmp_path: Path, distribution: Distribution, jprep: Run
) -> None:
    folder = tmp_path / "plan"
    shutil.copytree(sample, folder)
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("[train.backend.torch]\nthreads = 1", "[train.backend.numpy]"))
    options = ("recipe.toml", "--seconds", 1, "--backend", "numpy")
    env = offer(distribution)

    small = jprep("plan", *options, cwd=folder, env=env | {"NUMPY_MEMORY": str(10**9)}).stdout
    train, total = (line for line in small.splitlines() if line.startswith(("train ", "total ")))
    assert "1.0 GB" in train and "1.0 GB" in total and "jprep run recipe.toml" in small

    large = env | {"NUMPY_MEMORY": str(10**15)}
    shown = jprep("plan", *options, "--set", "train.checkpoint.keep_last=1000000000", cwd=folder, env=large).stdout
    warnings = [line for line in shown.splitlines() if "warning: " in line]
    assert len([line for line in warnings if "GB free" in line]) == 1
    assert any("are checkpoints: lower train.checkpoint.keep_last" in line for line in warnings)
    assert any("the training takes" in line and "it does not fit" in line for line in warnings)
    assert "jprep run" not in shown and "this does not fit" in shown


def test_a_plan_needs_sources_and_numbers(sample: Path, tmp_path: Path, jprep: Run) -> None:
    done = jprep("plan", sample / "recipe.toml", "--workers", "2,x", code=2, cwd=tmp_path)
    assert "expected a number" in done.stderr
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('name = "none"\n[tokenizer]\nvocab_size = 1000\n')
    assert "corpus" in jprep("plan", recipe, code=2, cwd=tmp_path).stderr
