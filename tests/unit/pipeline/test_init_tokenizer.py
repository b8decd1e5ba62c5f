"""A recipe without [tokenizer] uses the tokenizer of the model that it starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.cli.main import cli
from jprep.errors import ConfigError
from jprep.pipeline.init_tokenizer import tokenizer_of_init
from jprep.pipeline.recipe import Recipe, decode_recipe, load_recipe
from jprep.pipeline.run import plan_run
from jprep.train.job.config import ModelConfig
from jprep.train.pretrained.init import pretrained_config
from jprep.train.pretrained.location import check_init
from tests.conftest import ROOT
from tests.fakes.hugging_face import write_bert
from tests.servers.fixtures import hub
from tests.servers.hub import HubServer

__all__ = ["hub"]

RECIPE = """name = "small"

[train]
task = "classify"
data = ["rows.jsonl"]
model = { init = "bert" }
batch = 2
steps = 2
labelled = { length = 16 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_bert(tmp_path / "bert")
    rows = [{"text": "吾輩は猫である。", "label": label} for label in ("good", "bad")]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    (tmp_path / "small.toml").write_text(RECIPE)
    return tmp_path


def recipe(init: str = "bert", **sections: Any) -> Recipe:
    train = {"task": "mlm", "model": {"init": init, **sections.pop("model", {})}, "steps": 1}
    return decode_recipe({"name": "r", "train": train, **sections})


@pytest.mark.parametrize("scale", [None, "tiny"])
def test_no_tokenizer_is_trained_for_given_weights_that_have_one(scale: Any) -> None:
    plan = plan_run("small.toml", scale=scale)
    assert (plan.steps, plan.paths.tokenizer) == (["train", "export"], Path("bert"))
    assert "using the tokenizer of train.model.init, bert" in plan.notes[0]
    given = plan_run("small.toml", tokenizer="other")
    assert (given.paths.tokenizer, given.notes) == (Path("other"), ())


def test_at_scale_tiny_the_model_is_a_tiny_one_of_the_family_of_given_weights(folder: Path) -> None:
    config = json.loads((folder / "bert/config.json").read_text())
    (folder / "bert/config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    plan = plan_run("small.toml", scale="tiny")
    assert plan.recipe.train
    assert plan.recipe.train.model == ModelConfig(preset="bert-tiny", config={"hidden_act": "relu"})
    assert 'train.model.preset: was "", is "bert-tiny"' in plan.changes
    assert 'train.model.init: was "bert", is ""' in plan.changes


def test_a_tiny_section_with_another_model_does_not_use_given_weights(folder: Path) -> None:
    tiny = '[tiny]\ntrain.model = { preset = "bert-tiny", init = "" }\n'
    (folder / "small.toml").write_text(RECIPE.replace('"bert"', '"nowhere/at/all"') + tiny)
    assert plan_run("small.toml", scale="tiny", tokenizer="other").recipe.train
    with pytest.raises(ConfigError, match="no corpus of its own"):
        plan_run("small.toml", scale="tiny")


@pytest.mark.parametrize("path", sorted((ROOT / "data_recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_are_planned_at_scale_tiny_without_their_given_weights(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jprep.pipeline.run.check_given", lambda *_: None)  # there is no corpus
    given = {} if load_recipe(path).corpus.sources else {"corpus": "corpus"}
    plan = plan_run(path, scale="tiny", **given)
    assert plan.recipe.train is None or not plan.recipe.train.model.init


def test_the_recipe_s_own_tokenizer_comes_first() -> None:
    work = Path("work")
    assert tokenizer_of_init(recipe(), work) == Path("bert")
    assert tokenizer_of_init(recipe(tokenizer={"model": "bpe"}), work) is None
    assert tokenizer_of_init(recipe(model={"vocabulary": "transfer"}), work) is None
    assert tokenizer_of_init(recipe("bert/model.safetensors"), work) is None
    assert tokenizer_of_init(decode_recipe({"name": "r"}), work) is None
    (work / "r" / "tokenizer").mkdir(parents=True)
    (work / "r" / "tokenizer" / "card.json").write_text("{}")
    assert tokenizer_of_init(recipe(), work) is None
    Path("bert/tokenizer.json").unlink()
    assert tokenizer_of_init(recipe(), Path("other")) is None


def test_weights_that_do_not_exist_are_not_a_missing_tokenizer(folder: Path) -> None:
    (folder / "runs/own").mkdir(parents=True)
    with pytest.raises(ConfigError, match="there is no file or folder 'gone/model/export'") as refused:
        tokenizer_of_init(recipe("gone/model/export"), Path("work"))
    assert refused.value.where == "train.model.init" and "config.json" in refused.value.fix
    (folder / "runs/own/job.json").write_text("{}")
    with pytest.raises(ConfigError) as refused:
        tokenizer_of_init(recipe("runs/own/export"), Path("work"))
    assert "`jprep export runs/own`" in refused.value.fix


@pytest.mark.parametrize(
    ("init", "what", "option"),
    [
        ("work/my bert/runs/torch", "this is a run,", ""),
        ("work/my bert", "this is a folder of runs,", ""),
        ("work/my bert/runs/torch/checkpoints/step-00000060", "this is a checkpoint of a run,", " --which 60"),
    ],
)
def test_weights_in_a_run_name_the_command_that_exports_it(init: str, what: str, option: str, folder: Path) -> None:
    (folder / "work/my bert/runs/torch/checkpoints/step-00000060").mkdir(parents=True)
    (folder / "work/my bert/runs/torch/job.json").write_text("{}")
    made = recipe(init, model={"vocabulary": "transfer"})
    assert made.train
    for check in (lambda: tokenizer_of_init(made, Path("w")), lambda: check_init(made.train),
                  lambda: pretrained_config(made.train)):  # fmt: skip
        with pytest.raises(ConfigError, match=what) as refused:
            check()
        assert refused.value.fix == (
            f"`jprep export 'work/my bert/runs/torch'{option}`, "
            'then train.model.init = "work/my bert/runs/torch/export"'
        )


def test_the_plans_say_whose_tokenizer_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["train", "small.toml", "--dry-run"], standalone_mode=False)
    done = capsys.readouterr()
    assert "jprep: using the tokenizer of train.model.init, bert" in done.err
    assert "tokenizer  that of train.model.init" in done.out
    assert "these tensors start from the seed: bert.pooler.dense.weight" in done.out
    cli.main(["run", "small.toml", "--dry-run"], standalone_mode=False)
    assert "note       using the tokenizer of train.model.init, bert" in capsys.readouterr().out


def test_of_a_model_on_the_hub_only_the_tokenizer_is_downloaded(hub: HubServer, folder: Path) -> None:
    hub.put("acme/model", {path.name: path.read_bytes() for path in (folder / "bert").iterdir()})
    found = tokenizer_of_init(recipe("acme/model"), Path("work"))
    assert found and (found / "tokenizer.json").exists() and not (found / "model.safetensors").exists()
    with pytest.raises(ConfigError, match="there is no folder 'acme/modle', and as a name on the Hub"):
        plan_run("small.toml", set=['train.model.init="acme/modle"'])
