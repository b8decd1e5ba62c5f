"""`jprep train --all-folds`, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from jprep.cli.model.train import show_folds
from jprep.display_width import display_width
from jprep.engine.checksummed_json import encode_checksummed
from jprep.io.lock import hold_lock
from jprep.train.launcher.cross_validation import FoldsSummary, MetricSummary
from jprep.train.run.directory import LOCK
from tests.conftest import Distribution, Run
from tests.fakes.labelled_run import rows, tokenizer
from tests.fakes.numpy_backend import offer

RECIPE = """name = "評判"

[train]
task = "classify"
model = { preset = "bert-tiny" }
data = ["rows.jsonl"]
labelled = { length = 24, folds = 2 }
batch = 8
steps = 4
validation = { every_steps = 4 }
"""


def test_all_folds_are_trained_and_their_means_printed(tmp_path: Path, distribution: Distribution, jprep: Run) -> None:
    env = offer(distribution)
    rows(tmp_path / "rows.jsonl")
    tokenizer(tmp_path / "work" / "評判" / "tokenizer")
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    command = ["train", "recipe.toml", "--backend", "numpy", "--name", "二つ の 折"]
    run = tmp_path / "work" / "評判" / "runs" / "二つ の 折"
    planned = jprep(*command, "--all-folds", "--dry-run", cwd=tmp_path, env=env).stdout
    assert "fold 0 of folds 0 to 1" in planned
    assert not run.exists()
    shown = jprep(*command, "--all-folds", cwd=tmp_path, env=env).stdout
    for word in ("二つ の 折", "of 2 folds", "accuracy", "macro_f1", "f1/肯定"):
        assert word in shown
    rows_of_table = [line for line in shown.splitlines() if line.startswith("  ") and line.count(".") == 4]
    assert len({display_width(re.split(r"(?<=  )(?=[-0-9.]+  )", line)[0]) for line in rows_of_table}) == 1, shown
    assert "figures of the last validation: step 4\n" in shown
    export = next(line for line in shown.splitlines() if "jprep export" in line)
    assert "next:" in shown and f"jprep report '{run.relative_to(tmp_path)}'" in shown
    assert export.endswith(f"'{run.relative_to(tmp_path) / 'fold-0'}'")
    for command_of_one in ("export", "infer"):
        refused = jprep(
            command_of_one, run, *["文"] * (command_of_one == "infer"), cwd=tmp_path, env=env, code=2
        ).stderr
        assert "the runs of 2 folds" in refused and "fold-0 … fold-1" in refused
        words = " '文'" * (command_of_one == "infer")
        assert f"jprep {command_of_one} '{run / 'fold-0'}'{words}`" in refused
    assert sorted(path.name for path in run.iterdir()) == ["fold-0", "fold-1", "folds.json"]
    again = jprep(*command, "--all-folds", "--json", cwd=tmp_path, env=env)
    written = json.loads((run / "folds.json").read_bytes())
    assert json.loads(again.stdout) == {key: value for key, value in written.items() if key != "checksum"}
    refused = jprep(*command, "--all-folds", "--resume", "never", cwd=tmp_path, env=env, code=2)
    assert "--all-folds trains several" in refused.stderr
    alone = jprep(*command, "--all-folds", "-o", run / "fold-0", cwd=tmp_path, env=env, code=2)
    assert "give either -o or --name" in alone.stderr
    alone = jprep(*command[:-2], "--all-folds", "-o", run / "fold-0", cwd=tmp_path, env=env, code=2)
    assert "found a training run (job.json)" in alone.stderr

    one = jprep(*command, "--dry-run", cwd=tmp_path, env=env, code=2).stderr
    assert "found a finished set of runs for all folds" in one
    assert "or --all-folds" in one and "another --name or -o" in one
    assert "/fold-0 with numpy" in jprep(*command, "--all-folds", "--dry-run", cwd=tmp_path, env=env).stdout
    column = ["--set", "train.labelled.text=none"]
    assert "missing column 'none'" in jprep(*command, "--all-folds", *column, cwd=tmp_path, env=env, code=4).stderr

    other = [*command, "--all-folds", "--set", "train.seed=7"]
    assert "--restart" in jprep(*other, cwd=tmp_path, env=env, code=2).stderr
    shutil.copytree(run / "fold-0", run / "fold-0-copy")
    with hold_lock(run / "fold-1" / LOCK):
        jprep(*other, "--restart", cwd=tmp_path, env=env, code=3)
    assert (run / "folds.json").exists() and (run / "fold-0" / "job.json").exists(), "nothing is deleted"
    pushed = [*other, "--set", "train.push.to=org/reviews", "--restart"]
    assert "HF_HUB_OFFLINE" in jprep(*pushed, cwd=tmp_path, env=env | {"HF_HUB_OFFLINE": "1"}, code=3).stderr
    assert (run / "folds.json").exists() and (run / "fold-0" / "job.json").exists(), "the new runs could not begin"
    jprep(*other, "--restart", cwd=tmp_path, env=env)
    assert (run / "fold-0-copy" / "job.json").exists()
    assert json.loads((run / "folds.json").read_bytes())["jobs"] != written["jobs"]
    assert [json.loads((run / f"fold-{fold}" / "job.json").read_bytes())["train"]["seed"] for fold in (0, 1)] == [7, 7]


def test_a_plan_counts_the_rows_of_each_label(tmp_path: Path, distribution: Distribution, jprep: Run) -> None:
    env = offer(distribution)
    rows(tmp_path / "rows.jsonl")
    tokenizer(tmp_path / "work" / "評判" / "tokenizer")
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    plan = ["train", "recipe.toml", "--backend", "numpy", "--dry-run"]
    found = json.loads(jprep(*plan, "--json", cwd=tmp_path, env=env).stdout)["rows"]
    assert sum(found["labels"].values()) == found["train"] and found["validation"] > 0
    assert (found["folds"], found["fold"], found["class_weights"]) == (2, 0, {})
    shown = jprep(*plan, cwd=tmp_path, env=env).stdout
    counts = ", ".join(f"{name} {count}" for name, count in found["labels"].items())
    assert f"  labels     {counts}\n" in shown
    assert f"  held out   {found['validation']} rows, fold 0 of folds 0 to 1\n" in shown


def test_the_message_of_an_early_end_names_the_fold(tmp_path: Path, distribution: Distribution, jprep: Run) -> None:
    env = offer(distribution)
    rows(tmp_path / "rows.jsonl")
    tokenizer(tmp_path / "work" / "評判" / "tokenizer")
    recipe = RECIPE.replace("every_steps = 4", "every_steps = 1, patience = 1, min_delta = 9.0")
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    command = ["train", "recipe.toml", "--backend", "numpy", "--all-folds"]
    jprep(*command, cwd=tmp_path, env=env)
    again = jprep(*command, cwd=tmp_path, env=env).stderr
    for fold in (0, 1):
        assert f"評判/fold-{fold}: ended early, at step 2 of 4" in again


def test_the_summary_says_which_fold_has_which_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for steps, shown in (
        ([73, 73], "step 73\n"),
        ([73, 49, 73, 0], "step 73 (folds 0, 2), 49 (fold 1), none (fold 3)\n"),
    ):
        each = [0.5 for _ in steps]
        found = FoldsSummary("a", [str(step) for step in steps], {"loss": MetricSummary(0.5, 0.0, each)}, steps)
        (tmp_path / "folds.json").write_bytes(encode_checksummed(found))
        show_folds(tmp_path, as_json=False)
        assert f"figures of the last validation: {shown}" in capsys.readouterr().out
