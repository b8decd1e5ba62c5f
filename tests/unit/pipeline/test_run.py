"""`jprep.run`: every step of a recipe by one call of the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jprep
from jprep import samples
from jprep.errors import ConfigError, DamagedError, JprepError, MismatchError
from jprep.pipeline.run import RunPlan, RunReporter, execute_plan, plan_run
from jprep.pipeline.steps import Step, fix_other_work
from tests.conftest import digests, environment


class Recorder(RunReporter):
    """Records what a run reports."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.results: list[str] = []

    def step_started(self, plan: RunPlan, step: Step) -> None:
        self.steps.append(step)

    def result(self, text: str) -> None:
        self.results.append(text)


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return samples.write_sample(tmp_path)


SMALL = {"corpus.segmenter": "none", "tokenizer.boundaries": "none", "tokenizer.vocab_size": 1400}


def test_a_run_makes_the_outputs_once(recipe: Path) -> None:
    reporter = Recorder()
    result = jprep.run(recipe, set=SMALL, until="dataset", workers=1, reporter=reporter)
    assert (result.exit_code, result.steps, result.exports) == (0, ["corpus", "tokenizer", "dataset"], [])
    assert reporter.steps == result.steps and "documents" in reporter.results[0]
    assert result.paths.corpus == Path("work/quickstart/corpus") and len(jprep.Corpus(result.paths.corpus)) > 20
    assert (
        jprep.load_tokenizer(result.paths.tokenizer).decode(
            jprep.load_tokenizer(result.paths.tokenizer).encode("文です")
        )
        == "文です"
    )
    before = digests(Path("work"))
    assert jprep.run(jprep.load_recipe(recipe), set=SMALL, until="dataset", workers=1) == result
    assert digests(Path("work")) == before


def test_a_plan_writes_nothing_and_names_every_output(recipe: Path) -> None:
    plan = plan_run(recipe, set=["train.steps=7"], scale="tiny", backend="numpy", work="out")
    assert plan.recipe.name == "quickstart-tiny" and plan.recipe.train and plan.recipe.train.steps == 7
    assert plan.output("train") == Path("out/quickstart-tiny/runs/numpy")
    assert plan.output("export") == Path("out/quickstart-tiny/runs/numpy/export")
    assert any("train.batch: was 48, is 8" in change for change in plan.changes)
    assert not Path("out").exists() and not plan.pending_downloads()


def test_settings_hold_before_a_recipe_s_values_for_the_scale(recipe: Path) -> None:
    added = '[tiny]\ncorpus.segmenter = "spaces"\ntrain.steps = 9\ntrain.log_every = 3\n'
    recipe.write_text(recipe.read_text(encoding="utf-8") + added, encoding="utf-8")
    whole = plan_run(recipe, backend="numpy")
    assert whole.recipe.train and (whole.recipe.train.log_every, whole.recipe.corpus.segmenter) != (3, "spaces")
    plan = plan_run(recipe, set=["train.steps=7"], scale="tiny", backend="numpy")
    assert plan.recipe.train and plan.recipe.corpus.segmenter == "spaces"
    assert (plan.recipe.train.steps, plan.recipe.train.log_every) == (7, 3)
    assert any(change.startswith("corpus.segmenter: was") for change in plan.changes)


def test_an_invalid_recipe_is_refused_before_the_first_step(recipe: Path) -> None:
    with pytest.raises(ConfigError, match="bach"):
        jprep.run(recipe, set={"train.bach": 3}, until="corpus")
    with pytest.raises(JprepError, match="no-such"):
        execute_plan(plan_run(recipe, backend="no-such"), RunReporter())
    assert not Path("work").exists()


def test_another_output_is_refused_with_a_fix(recipe: Path) -> None:
    jprep.run(recipe, set=SMALL, until="corpus", workers=1)
    with pytest.raises(ConfigError, match="different work") as caught:
        jprep.run(recipe, set=SMALL | {"corpus.filters": []}, until="corpus", workers=1)
    assert "another --work" in caught.value.fix and "work/" in caught.value.fix


def test_another_kind_of_output_is_refused_with_a_fix(recipe: Path) -> None:
    jprep.run(recipe, set=SMALL, until="corpus", workers=1)
    corpus = next(Path("work").glob("*/corpus"))
    with pytest.raises(ConfigError, match="found a finished corpus") as caught:
        jprep.run(recipe, set=SMALL, until="corpus", work=corpus)
    assert caught.value.fix == "give another --work, or move this directory away"
    corpus.rename(corpus.with_name("tokenizer"))
    with pytest.raises(ConfigError, match="found a finished corpus") as caught:
        jprep.run(recipe, set=SMALL, until="tokenizer", workers=1)
    assert caught.value.fix == "give another --work, or move this directory away"


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9] + bytes(9))


def test_a_damaged_output_of_a_step_is_to_be_deleted(recipe: Path) -> None:
    jprep.run(recipe, set=SMALL, until="corpus", workers=1)
    damage(next(Path("work").glob("*/corpus/documents/*")))
    with pytest.raises(DamagedError, match="changed or damaged") as caught:
        jprep.run(recipe, set=SMALL, until="tokenizer", workers=1)
    folder = next(Path("work").glob("*/corpus"))
    assert caught.value.fix == f"give another --work, or delete {folder} to repeat this step"


def test_an_error_about_something_else_keeps_its_fix() -> None:
    place, rebuild = "work/r/corpus/a.parquet", "`jprep corpus build … --restart`"
    damaged = DamagedError("damaged", where=place, fix=rebuild, options=("--restart",))
    assert fix_other_work(damaged, "dataset", Path("work/r/dataset")) == damaged.fix
    again = DamagedError("damaged", where="work/r/dataset/.state/x", fix="run the same command again")
    assert fix_other_work(again, "dataset", Path("work/r/dataset")) == again.fix


def test_a_step_of_a_run_is_not_to_be_restarted() -> None:
    place, rebuild = "work/r/corpus/a.parquet", "`jprep corpus build … --restart`"
    damaged = DamagedError("damaged", where=place, fix=rebuild, options=("--restart",))
    assert "another --work" in fix_other_work(damaged, "corpus", Path("work/r/corpus"))
    other = MismatchError("too long", where="work/r/runs/a", fix="use another -o", options=("-o",))
    assert "`jprep run` has --work in place of -o" in fix_other_work(other, "train", Path("work/r/runs/a"))


def test_run_is_imported_on_first_use() -> None:
    code = "import sys, jprep; assert 'numpy' not in sys.modules; print(jprep.run.__module__, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "jprep.pipeline.run True\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jprep.nothing  # type: ignore[attr-defined]  # noqa: B018
