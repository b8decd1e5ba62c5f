"""`jprep compare`: the plan, refusals, and help; a whole comparison is in `test_compare_torch.py`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from tests.conftest import Run
from tests.fakes.compared_models import write_recipe, write_texts


def recipes(folder: Path) -> list[Path]:
    texts = write_texts(folder / "texts.jsonl")
    return [write_recipe(folder, "one", texts), write_recipe(folder, "two", texts, ids=500)]


def test_a_dry_run_prints_a_plan_and_writes_nothing(tmp_path: Path, jprep: Run) -> None:
    given = recipes(tmp_path)
    shown = jprep("compare", *given, "--budget", "20min", "--dry-run", "-o", tmp_path / "out").stdout
    assert "2 recipes × 3 seeds" in shown and "two.toml" in shown
    plan = json.loads(jprep("compare", *given, "--dry-run", "--size", "5m", "--seeds", 4, "--json").stdout)
    assert plan["size"]["name"] == "5m" and plan["seeds"] == [1, 2, 3, 4]
    assert not (tmp_path / "out").exists()


def test_wrong_options_name_the_fix(tmp_path: Path, jprep: Run) -> None:
    one, two = recipes(tmp_path)
    assert "20min" in jprep("compare", one, two, "--budget", "20", code=2).stderr
    assert "expected 2 to 26 recipes" in jprep("compare", one, code=2).stderr
    assert "--size" in jprep("compare", one, two, "--size", "7m", "--dry-run", code=2).stderr
    assert "no such recipe" in jprep("compare", one, tmp_path / "none.toml", code=2).stderr


def test_a_directory_with_other_content_is_not_touched(tmp_path: Path, jprep: Run) -> None:
    own = tmp_path / "out" / "mine.txt"
    own.parent.mkdir()
    own.write_text("mine")
    assert "mine.txt" in jprep("compare", *recipes(tmp_path), "-o", own.parent, code=2).stderr
    assert own.read_text() == "mine"


def test_tasks_are_shown_with_their_chance_and_what_was_left_out() -> None:
    from jprep.cli.pipeline.compare import _describe_task
    from jprep.compare.result import TaskResult

    task = TaskResult(
        name="quiz", metric="accuracy", lower_is_better=False, chance=0.2, items=1, left_out=3,
        scores=[[0.25, 0.75], [1.0, 1.0]], correct=[], weights=[1.0],
    )  # fmt: skip
    shown = _describe_task(task, ["A", "B"])
    assert shown == "quiz: 1 item, 3 left out; accuracy A 0.500, B 1.000 (chance 0.200)"
    assert _describe_task(msgspec.structs.replace(task, items=0), ["A", "B"]) == "quiz: 0 items, 3 left out"
