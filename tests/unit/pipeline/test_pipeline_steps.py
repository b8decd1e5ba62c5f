"""The steps of a recipe, their order, and the checks before the first one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError
from jprep.pipeline.early_checks import check_given, check_inputs, check_steps
from jprep.pipeline.output_paths import find_finished, output_paths
from jprep.pipeline.recipe import Recipe, decode_recipe
from jprep.pipeline.run import plan_run
from jprep.pipeline.steps import missing_section, pending_downloads, select_steps, summarize_steps

SOURCE = {"name": "web", "paths": ["b.txt"], "reader": "text"}
CORPUS = {"sources": [SOURCE], "segmenter": "none"}
CLM = {"task": "clm", "steps": 10, "model": {"preset": "gpt2-tiny"}}
MLM = {"task": "mlm", "steps": 10, "model": {"preset": "bert-tiny"}}
CLASSIFY = {"task": "classify", "steps": 10, "model": {"preset": "bert-tiny"}, "data": ["no.jsonl"]}
ALL = ["corpus", "tokenizer", "dataset", "train", "export"]


def recipe(**sections: Any) -> Recipe:
    return decode_recipe({"name": "r", **sections})


@pytest.mark.parametrize(
    ("sections", "steps", "missing"),
    [
        ({"corpus": CORPUS}, ["corpus"], "[tokenizer]"),
        ({"corpus": CORPUS, "tokenizer": {"model": "bpe"}}, ["corpus", "tokenizer"], "[dataset]"),
        ({"corpus": CORPUS, "dataset": {"validation": 0.1}}, ["corpus", "tokenizer", "dataset"], "[train]"),
        ({"corpus": CORPUS, "train": CLM}, ALL, ""),
    ],
)
def test_a_recipe_has_the_steps_of_its_sections_and_their_inputs(
    sections: dict[str, Any], steps: list[str], missing: str
) -> None:
    made = recipe(**sections)
    assert select_steps(made, "export") == steps
    assert missing_section(made, select_steps(made, "export"), "export") == missing


def test_until_ends_the_steps() -> None:
    made = recipe(corpus=CORPUS, train=CLM)
    assert select_steps(made, "tokenizer") == ["corpus", "tokenizer"]
    assert missing_section(made, ["corpus", "tokenizer"], "tokenizer") == ""


def test_labelled_data_needs_a_tokenizer_and_no_dataset() -> None:
    made = recipe(train={"task": "classify", "data": ["a.jsonl"], "epochs": 1})
    assert select_steps(made, "export", corpus=True) == ["corpus", "tokenizer", "train", "export"]
    assert select_steps(made, "export", tokenizer=True) == ["train", "export"]


def test_without_sources_it_asks_for_a_corpus() -> None:
    with pytest.raises(ConfigError, match="no corpus of its own") as error:
        select_steps(recipe(tokenizer={"model": "bpe"}), "export")
    assert "--corpus DIR" in error.value.fix


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"corpus": CORPUS | {"filters": ["lenght"]}}, "length"),
        ({"corpus": CORPUS, "train": CLM | {"schedule": {"warmup": 11}}}, "warm-up"),
        ({"corpus": CORPUS, "train": CLM | {"optimizer": {"lr": -1.0}}}, "train.optimizer.lr is out of its range"),
        ({"corpus": CORPUS, "train": MLM | {"masking": {"rate": 30.0}}}, "masking.rate must be a share"),
        ({"corpus": CORPUS, "train": MLM, "tokenizer": {"special": ["gpt"]}}, "mlm needs a mask token"),
        ({"corpus": CORPUS, "train": CLM, "tokenizer": {"boundaries": "train"}}, "this corpus has no words"),
        ({"corpus": CORPUS}, "no file matches"),
    ],
)
def test_a_typo_is_found_before_the_first_step(sections: dict[str, Any], said: str) -> None:
    made = recipe(**sections)
    with pytest.raises(ConfigError, match=said):
        check_steps(made, select_steps(made, "export"), "torch")


def test_rows_that_do_not_exist_are_found_before_the_first_step() -> None:
    with pytest.raises(ConfigError, match=r"there is no such file\s+where: no\.jsonl"):
        check_inputs(recipe(train=CLASSIFY), ["train"])


def test_a_plan_for_another_machine_needs_no_inputs_and_no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check_mirror", "check_init", "worker_python"):
        monkeypatch.setattr(f"jprep.pipeline.early_checks.{name}", lambda *_: pytest.fail("not on this machine"))
    made = recipe(corpus=CORPUS | {"segmenter": "spaces"}, train=CLM | {"checkpoint": {"mirror": "s3://bucket/run"}})
    monkeypatch.setattr("jprep.pipeline.early_checks.worker_python", lambda *_: None)
    check_steps(made, select_steps(made, "export"), "torch", here=False)


def test_given_outputs_that_do_not_exist_are_found_before_the_first_step(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(ConfigError, match="nowhere"):
        check_given(["dataset"], None, missing)
    with pytest.raises(ConfigError, match="nowhere"):
        check_given(["dataset"], missing, None)
    check_given(["corpus"], None, missing)


def test_a_plan_checks_given_outputs(tmp_path: Path) -> None:
    made = recipe(corpus=CORPUS, train=CLM)
    with pytest.raises(ConfigError, match="nowhere"):
        plan_run(made, tokenizer=tmp_path / "nowhere", work=tmp_path / "work")


def test_an_unknown_backend_is_found_before_the_first_step() -> None:
    made = recipe(corpus=CORPUS, train=CLM)
    with pytest.raises(ConfigError, match="toorch"):
        check_steps(made, select_steps(made, "export"), "toorch")


def test_a_tracker_that_cannot_be_used_is_found_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("jprep.pipeline.run")
    monkeypatch.setattr(module, "check_steps", lambda *_, **__: None)  # the backend need not be installed
    train = CLM | {"trackers": [{"use": "tensorboard", "log_dir": "https://host/logs"}]}
    plan = module.plan_run(recipe(corpus=CORPUS, train=train), work=tmp_path / "work")
    with pytest.raises(ConfigError, match="cannot write to a URL of this kind"):
        module.execute_plan(plan, module.RunReporter())
    assert not list(tmp_path.iterdir())


def test_only_missing_files_are_fetched(tmp_path: Path) -> None:
    here, away = tmp_path / "here.txt", tmp_path / "away.txt"
    here.write_text("文。")
    sources = [
        {
            "name": path.stem,
            "paths": [str(path)],
            "reader": "text",
            "files": [{"url": f"https://example.org/{path.name}"}],
        }
        for path in (here, away)
    ]
    made = recipe(corpus={"sources": sources, "segmenter": "none"})
    assert list(pending_downloads(made, tmp_path / "downloads")) == ["away.txt"]
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "away.txt").write_text("文。")
    assert not pending_downloads(made, tmp_path / "downloads")


def test_an_unfinished_input_is_reported_with_the_command_that_makes_it(tmp_path: Path) -> None:
    made = recipe(corpus=CORPUS)
    with pytest.raises(ConfigError, match="dataset does not exist yet") as error:
        find_finished("dataset", made, Path("r.toml"), tmp_path)
    assert f"run `jprep dataset pack r.toml --work {tmp_path}`" in error.value.fix
    place = output_paths(tmp_path, "r").dataset
    place.mkdir(parents=True)
    (place / "dataset.json").write_text("{}")
    assert find_finished("dataset", made, Path("r.toml"), tmp_path) == place


def test_a_given_input_that_does_not_exist_is_not_a_missing_step(tmp_path: Path) -> None:
    given = tmp_path / "nods"
    for step in ("corpus", "tokenizer", "dataset"):
        with pytest.raises(ConfigError, match=f"the directory given as --{step} does not exist") as error:
            find_finished(step, recipe(corpus=CORPUS), Path("r.toml"), tmp_path, given)  # type: ignore[arg-type]
        assert error.value.where == str(given) and str(tmp_path / "r" / step) in error.value.fix
    given.mkdir()
    with pytest.raises(ConfigError, match="there is no finished dataset here"):
        find_finished("dataset", recipe(corpus=CORPUS), Path("r.toml"), tmp_path, given)


def test_a_given_model_needs_its_own_tokenizer_not_a_new_one(tmp_path: Path) -> None:
    made = recipe(corpus=CORPUS, train={"task": "clm", "steps": 1, "model": {"init": "org/name"}})
    with pytest.raises(ConfigError, match="tokenizer does not exist yet") as found:
        find_finished("tokenizer", made, Path("r.toml"), tmp_path)
    assert "train.model.init" in found.value.fix and "jprep tokenizer train" not in found.value.fix


def test_the_command_for_a_missing_step_works_in_this_work_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as found:
        find_finished("dataset", recipe(corpus=CORPUS), Path("a b.toml"), tmp_path / "c d")
    assert f"`jprep dataset pack 'a b.toml' --work '{tmp_path}/c d'`" in found.value.fix
    with pytest.raises(ConfigError) as found:
        find_finished("dataset", recipe(corpus=CORPUS), Path("r.toml"), Path("work"))
    assert "`jprep dataset pack r.toml`" in found.value.fix


LABELLED = {"task": "classify", "data": ["a.jsonl"], "epochs": 1, "model": {"preset": "bert-tiny"}}
IN_FOLDS = LABELLED | {"labelled": {"folds": 3}, "validation": {"every_steps": 5}}


def test_labelled_rows_without_a_corpus_need_a_tokenizer() -> None:
    with pytest.raises(ConfigError, match="no corpus of its own") as error:
        select_steps(recipe(train=LABELLED), "export")
    assert "--tokenizer DIR" in error.value.fix and "--corpus DIR" in error.value.fix


def test_folds_are_listed_before_the_first_step() -> None:
    made = recipe(corpus=CORPUS, train=IN_FOLDS)
    assert "each of 3 folds" in dict(summarize_steps(made, select_steps(made, "export"), "torch"))["train"]
    alone = recipe(corpus=CORPUS, train=IN_FOLDS | {"fold": 1})
    assert "folds" not in dict(summarize_steps(alone, select_steps(alone, "export"), "torch"))["train"]
    made = recipe(corpus=CORPUS, train=IN_FOLDS | {"validation": {}})
    with pytest.raises(ConfigError, match="the folds would not be validated"):
        steps = select_steps(made, "export")
        check_steps(made, steps, "torch")


def test_held_out_splits_are_summarized() -> None:
    made = recipe(corpus=CORPUS, dataset={"validation": 0.01, "test": ["web"]})
    lines = dict(summarize_steps(made, ["dataset"], "torch"))
    assert lines == {"dataset": "0.01 of the documents for validation, the source web for the test split"}
