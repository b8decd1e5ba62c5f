"""Starter recipes that continue a finished model with its tokenizer."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from jprep import samples
from jprep.corpus.config import default_recipe
from jprep.engine.executors.local import Local
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.pipeline.recipe import load_recipe
from jprep.pipeline.run import plan_run
from jprep.pipeline.starter.choices import Answers, StartingModel
from jprep.pipeline.starter.starter_recipe import compose_recipe
from jprep.pipeline.starter.starting_model import check_starting_model, read_starting_model
from jprep.tokenizer.train import train as train_tokenizer
from jprep.tokenizer.training_data import InputTrainingData
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models import TokenizerInfo, model_config
from tests.conftest import Run
from tests.fakes.config_sections import tokenizer_config
from tests.fakes.hugging_face import write_bert, write_byte_level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "novels.txt").write_bytes(samples.crawl_bytes())
    write_bert(tmp_path / "bert", positions=48)
    return tmp_path


def test_a_recipe_continues_a_model_with_its_tokenizer(folder: Path, jprep: Run) -> None:
    said = jprep("init", "mine.toml", "--from", "text", "--input", "novels.txt", "--init", "bert", cwd=folder)
    assert "mine.toml: bert by torch, its tokenizer, from text" in said.stdout
    recipe = load_recipe(folder / "mine.toml")
    assert recipe.tokenizer is None and recipe.train
    assert (recipe.train.model.init, recipe.train.model.preset) == ("bert", "")
    assert (recipe.train.task, recipe.train.length) == ("mlm", 48)
    assert recipe.train.masking.whole_word and recipe.corpus.segmenter == "pointwise"
    assert recipe.train.optimizer.lr == 2e-5
    plan = plan_run(folder / "mine.toml")
    assert plan.steps == ["corpus", "dataset", "train", "export"] and plan.paths.tokenizer == Path("bert")


def write_config(folder: Path, preset: str, task: Task) -> None:
    info = TokenizerInfo(300, 16, bos=0, eos=2, pad=1)
    (folder / "config.json").write_text(json.dumps(model_config(ModelConfig(preset=preset), task, info)))


def test_a_causal_model_needs_no_words(folder: Path, jprep: Run) -> None:
    write_config(write_byte_level(folder / "gpt2"), "gpt2-tiny", "clm")
    jprep("init", "mine.toml", "--from", "text", "--input", "novels.txt", "--init", "gpt2", cwd=folder)
    recipe = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))
    assert recipe["train"]["task"] == "clm" and recipe["corpus"]["segmenter"] == "none"


@pytest.mark.parametrize(
    ("preset", "task", "lengths"),
    [
        ("gpt2-tiny", "clm", (256, 1024)),
        ("llama-tiny", "clm", (1024, 1024)),
        ("qwen3-tiny", "clm", (1024, 1024)),
        ("bert-tiny", "mlm", (512, 512)),
        ("roberta-tiny", "mlm", (512, 510)),
        ("modernbert-tiny", "mlm", (512, 1024)),
        ("deberta-v2-tiny", "mlm", (512, 512)),
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_rows_have_the_positions_of_the_config_or_those_of_transformers(
    preset: str, task: Task, lengths: tuple[int, int], stated: bool, folder: Path, jprep: Run
) -> None:
    write_config(folder / "bert", preset, task)
    if not stated:
        config = json.loads((folder / "bert/config.json").read_text())
        for key in ("n_positions", "max_position_embeddings"):
            config.pop(key, None)
        (folder / "bert/config.json").write_text(json.dumps(config))
    jprep("init", "mine.toml", "--from", "text", "--input", "novels.txt", "--init", "bert", cwd=folder)
    train = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))["train"]
    assert (train["task"], train["length"]) == (task, lengths[0 if stated else 1])


@pytest.mark.parametrize(
    ("boundaries", "segmenter"), [("hard", "pointwise"), ("spaces", "pointwise"), ("none", "none")]
)
def test_a_tokenizer_of_words_gets_them(boundaries: str, segmenter: str, folder: Path, jprep: Run) -> None:
    source = InputTrainingData(default_recipe({"text": [str(folder / "novels.txt")]}, "pointwise"), folder / HASH_CACHE)
    section = {"model": "byte-bpe", "vocab_size": 400, "boundaries": boundaries, "special": ["gpt"]}
    train_tokenizer(source, tokenizer_config(section, "test"), folder / "gpt2", Local(1), SilentProgress())
    write_config(folder / "gpt2", "gpt2-tiny", "clm")
    jprep("init", "mine.toml", "--from", "text", "--input", "novels.txt", "--init", "gpt2", cwd=folder)
    recipe = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))
    found = recipe["corpus"]["segmenter"]
    assert (found if isinstance(found, str) else found["use"]) == segmenter
    jprep("run", "mine.toml", "--until", "dataset", cwd=folder)


def test_the_published_share_of_masks_is_kept(folder: Path, jprep: Run) -> None:
    write_config(folder / "bert", "modernbert-tiny", "mlm")
    jprep("init", "mine.toml", "--from", "text", "--input", "novels.txt", "--init", "bert", cwd=folder)
    assert tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))["train"]["masking"]["rate"] == 0.3


def test_a_tokenizer_of_words_is_refused_without_a_segmenter(folder: Path) -> None:
    start = StartingModel("gpt2", "gpt2", 256, True, {}, 128)
    answers = Answers(name="x", source="text", inputs=("novels.txt",), start=start, segmenter="none")
    with pytest.raises(ConfigError, match="takes words"):
        compose_recipe(answers, folder / "mine.toml")


def test_no_model_is_refused(folder: Path, jprep: Run) -> None:
    assert "there is no directory ''" in jprep("init", "mine.toml", "--init", "", cwd=folder, code=2).stderr


def test_a_preset_beside_a_model_to_continue_is_refused(folder: Path, jprep: Run) -> None:
    refused = jprep("init", "mine.toml", "--init", "bert", "--model", "bert-base", cwd=folder, code=2)
    assert "leave out --model and --tokenizer" in refused.stderr and not (folder / "mine.toml").exists()


@pytest.mark.parametrize(
    ("change", "what", "fix"),
    [
        (lambda bert: (bert / "tokenizer.json").unlink(), "there is no tokenizer in this directory", "jprep export"),
        (lambda bert: (bert / "config.json").unlink(), "there is no config.json in this directory", "jprep export"),
        (
            lambda bert: bert.rename("x") and Path("bert").write_text("x"),
            "expected a directory, got a file",
            "ORG/NAME",
        ),
        (lambda bert: bert.rename("other"), "there is no directory './bert'", "ORG/NAME"),
    ],
)
def test_what_cannot_be_continued_is_refused(change, what: str, fix: str, folder: Path) -> None:  # type: ignore[no-untyped-def]
    change(folder / "bert")
    with pytest.raises(ConfigError, match=what) as refused:
        read_starting_model("./bert")
    assert refused.value.where == "--init ./bert" and fix in refused.value.fix


def test_models_that_the_backend_or_init_does_not_train_are_refused(folder: Path) -> None:
    write_config(folder / "bert", "modernbert-tiny", "mlm")
    with pytest.raises(ConfigError, match="keras does not train modernbert") as refused:
        check_starting_model(read_starting_model("bert"), "keras")
    assert refused.value.fix == "--train with one of torch, deepspeed, flax"
    write_config(folder / "bert", "electra-tiny", "rtd")
    with pytest.raises(ConfigError, match="do not continue models of the type 'electra'") as refused:
        read_starting_model("bert")
    assert "docs/pretrained.md" in refused.value.fix
