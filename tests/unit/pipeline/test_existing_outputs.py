"""Existing outputs of a recipe are compared with it before the first step."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import jprep
from jprep import samples
from jprep.corpus.made_from import expected_made_from, options_made_from, without_inputs
from jprep.dataset.manifest import read_dataset
from jprep.dataset.pack import option_fields as dataset_options
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.errors import ConfigError, DamagedError, MismatchError
from jprep.pipeline.existing_outputs import check_existing, output_state
from jprep.pipeline.output_paths import MadeStep
from jprep.pipeline.recipe import load_recipe
from jprep.pipeline.run import RunPlan, RunReporter, plan_run
from jprep.pipeline.steps import OTHER_WORK, Step
from jprep.tokenizer.card import read_own_card
from jprep.tokenizer.train import option_fields as tokenizer_options
from jprep.tokenizer.train import tokenizer_directory

SMALL: Mapping[str, object] = {
    "corpus.segmenter": "none", "tokenizer.boundaries": "none", "tokenizer.vocab_size": 1400,
}  # fmt: skip


class Started(RunReporter):
    """Records the steps that begin."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step_started(self, plan: RunPlan, step: Step) -> None:
        self.steps.append(step)


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return samples.write_sample(tmp_path)


@pytest.fixture
def finished(recipe: Path) -> Path:
    """Return a recipe whose outputs up to the dataset are finished."""
    jprep.run(recipe, set=SMALL, until="dataset", workers=1)
    return recipe


def _refused(recipe: Path, **changed: object) -> str:
    """Run a recipe with other options; return the error, which comes before the first step."""
    reporter = Started()
    settings = SMALL | {key.replace("__", "."): value for key, value in changed.items()}
    with pytest.raises(MismatchError) as caught:
        jprep.run(recipe, set=settings, until="dataset", workers=1, reporter=reporter)
    assert reporter.steps == []
    return f"{caught.value.where}: {caught.value.what}; {caught.value.fix}"


@pytest.mark.parametrize(
    ("key", "value", "step", "what"),
    [
        ("corpus__dedup__lines", False, "corpus", "dedup.line_min_chars"),
        ("corpus__splitter", "none", "corpus", "splitter: was rules, is none"),
        ("tokenizer__vocab_size", 1300, "tokenizer", "vocab_size: was 1400, is 1300"),
        ("dataset__validation", 0.25, "dataset", "validation: was"),
        ("dataset__mix", {"parts": [{"name": "all"}], "weights": {"all": 1}}, "dataset", "mix"),
    ],
)
def test_other_options_are_refused_before_the_first_step(
    finished: Path, key: str, value: object, step: str, what: str
) -> None:
    error = _refused(finished, **{key: value})
    assert what in error and f"delete work/quickstart/{step} to repeat this step" in error


def test_outputs_of_another_corpus_are_refused_before_the_first_step(finished: Path) -> None:
    other = SMALL | {"corpus.dedup.lines": False}
    shutil.rmtree("work/quickstart/corpus")
    jprep.run(finished, set=other, until="corpus", workers=1)
    error = _refused(finished, corpus__dedup__lines=False)
    assert "work/quickstart/tokenizer: this directory has different work: the corpus is a different one" in error


def test_another_output_in_a_directory_is_refused_before_the_first_step(recipe: Path) -> None:
    Path("work/quickstart/dataset").mkdir(parents=True)
    Path("work/quickstart/dataset/notes.txt").write_text("mine")
    reporter = Started()
    with pytest.raises(ConfigError, match="files that jprep has not written") as caught:
        jprep.run(recipe, set=SMALL, until="dataset", workers=1, reporter=reporter)
    assert reporter.steps == [] and caught.value.fix == OTHER_WORK


@pytest.mark.parametrize("manifest", ["corpus/corpus.json", "tokenizer/card.json", "dataset/dataset.json"])
def test_a_damaged_manifest_has_a_fix_for_the_whole_recipe(finished: Path, manifest: str) -> None:
    path = Path("work/quickstart", manifest)
    path.write_bytes(path.read_bytes().replace(b"0.1.0", b"0.1.x", 1))
    with pytest.raises(DamagedError) as caught:
        jprep.run(finished, set=SMALL, until="dataset", workers=1)
    assert "--restart" not in caught.value.fix and "--work" in caught.value.fix


def test_the_output_of_a_running_command_is_left_to_its_step(finished: Path) -> None:
    plan = plan_run(finished, set=SMALL | {"tokenizer.vocab_size": 1300}, until="dataset")
    with tokenizer_directory(plan.paths.tokenizer).claim():
        check_existing(plan.recipe, plan.own_steps, plan.paths)
    with pytest.raises(MismatchError):
        check_existing(plan.recipe, plan.own_steps, plan.paths)


def test_work_that_was_only_planned_is_not_compared(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.io.failpoints._passed", 0)
    monkeypatch.setattr("jprep.io.failpoints._ACTIVE", "stage.begun=raise")
    monkeypatch.setattr(OutputDirectory, "_remove_plans", lambda self: None)  # as if it were killed
    with pytest.raises(RuntimeError):
        jprep.run(recipe, set=SMALL, until="corpus", workers=1)
    plan = plan_run(recipe, set=SMALL | {"corpus.dedup.lines": False}, until="corpus")
    assert (plan.paths.corpus / ".state").is_dir()
    check_existing(plan.recipe, plan.own_steps, plan.paths)
    assert output_state("corpus", plan.paths.corpus) == "new"


def test_a_tokenizer_may_be_finished_before_its_corpus_is_built_again(finished: Path) -> None:
    shutil.rmtree("work/quickstart/corpus")
    reporter = Started()
    jprep.run(finished, set=SMALL, until="dataset", workers=1, reporter=reporter)
    assert reporter.steps == ["corpus", "tokenizer", "dataset"]


@pytest.mark.parametrize(
    ("failpoint", "key", "value", "what"),
    [
        ("corpus.sealing", "corpus.dedup.lines", False, "dedup.line_min_chars"),
        ("tokenizer.counted", "tokenizer.vocab_size", 1300, "vocab_size: was 1400, is 1300"),
    ],
)
def test_unfinished_work_is_compared(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, failpoint: str, key: str, value: object, what: str
) -> None:
    monkeypatch.setattr("jprep.io.failpoints._passed", 0)
    monkeypatch.setattr("jprep.io.failpoints._ACTIVE", f"{failpoint}=raise")
    with pytest.raises(RuntimeError):
        jprep.run(recipe, set=SMALL, until="dataset", workers=1)
    plan = plan_run(recipe, set=SMALL | {key: value}, until="dataset")
    with pytest.raises(MismatchError, match=what):
        check_existing(plan.recipe, plan.own_steps, plan.paths)
    step: MadeStep = "corpus" if failpoint.startswith("corpus") else "tokenizer"
    assert output_state(step, plan.output(step)) == "unfinished"
    same = plan_run(recipe, set=SMALL, until="dataset")
    check_existing(same.recipe, same.own_steps, same.paths)


def test_options_are_a_part_of_the_fingerprints(finished: Path) -> None:
    plan = plan_run(finished, set=SMALL, until="dataset")
    recipe, paths = plan.recipe, plan.paths
    assert recipe.tokenizer and recipe.dataset
    sources = [source.name for source in recipe.corpus.sources]
    tokenizer, dataset = plain(tokenizer_options(recipe.tokenizer)), plain(dataset_options(recipe.dataset, sources))
    assert tokenizer.items() <= read_own_card(paths.tokenizer).made_from.items()
    assert dataset.items() <= read_dataset(paths.dataset).made_from.items()


def test_options_of_a_corpus_are_its_fingerprint_without_inputs(recipe: Path) -> None:
    Path("test.jsonl").write_text('{"text": "試験の文。"}\n', encoding="utf-8")
    tests = [{"name": "test", "paths": ["test.jsonl"], "fields": ["text"]}]
    near = {"corpus.dedup.near.ngram": 4, "corpus.sources.0.normalizers": [], "corpus.decontaminate": tests}
    found = load_recipe(recipe, [])
    changed = plan_run(recipe, set=SMALL | near, until="corpus").recipe
    assert options_made_from(found) == without_inputs(expected_made_from(found, Path("hashes.json")))
    assert options_made_from(changed) == without_inputs(expected_made_from(changed, Path("hashes.json")))


def test_an_extended_tokenizer_is_compared_without_its_base(finished: Path) -> None:
    base = Path("work/quickstart/tokenizer")
    shutil.copytree(base, "base")
    extended = SMALL | {"tokenizer.extends": "base", "tokenizer.vocab_size": 1450}
    shutil.rmtree(base)
    shutil.rmtree("work/quickstart/dataset")
    jprep.run(finished, set=extended, until="tokenizer", workers=1)
    Path("base").rename("moved")
    plan = plan_run(finished, set=extended | {"tokenizer.extends": "moved"}, until="tokenizer")
    check_existing(plan.recipe, plan.own_steps, plan.paths)
    plan = plan_run(
        finished, set=extended | {"tokenizer.extends": "moved", "tokenizer.vocab_size": 1460}, until="tokenizer"
    )
    with pytest.raises(MismatchError, match="vocab_size: was 1450, is 1460"):
        check_existing(plan.recipe, plan.own_steps, plan.paths)
