"""The recipes that come with jprep are valid, and their documentation knows every key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jprep.corpus.config import VERSION, CorpusConfig, DedupConfig, RemoteFile, Source
from jprep.dataset.conversations.reader import read_conversations
from jprep.dataset.labelled.dataset import fold_of
from jprep.dataset.labelled.reader import LabelledConfig, read_labelled_rows
from jprep.dataset.manifest import DatasetConfig
from jprep.dataset.mix import MixConfig, MixStage
from jprep.dataset.sampling.config import MaskingConfig
from jprep.io.inputs.paths import expand_patterns
from jprep.pipeline.recipe import Recipe, check_recipe, decode_recipe, load_recipe, with_tiny_values
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job import config
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.optimization.schedule import check_schedule

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "data_recipes").glob("*.toml"))
DOCUMENTATION = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_reads_what_it_fetches(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == path.stem
    assert recipe.description
    assert recipe.version == VERSION == tomllib.loads(path.read_text())["version"]
    for source in recipe.corpus.sources:
        assert source.licence
        names = [file.name or urlsplit(file.url).path.rpartition("/")[2] for file in source.files]
        assert not names or (source.homepage and source.paths == [f"downloads/{name}" for name in names])
    for source in with_tiny_values(recipe, path.name).corpus.sources:
        if not source.files:  # it comes with the recipe; at other scales it may be the user's own, or on the Hub
            assert source.licence
            assert all(Path(each).is_relative_to(path.parent) for each in expand_patterns(source.paths))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_training_of_a_shipped_recipe_is_valid(path: Path) -> None:
    recipe = load_recipe(path)
    train = recipe.train
    assert train
    check_schedule(train.schedule, train.steps or train.schedule.warmup + 1)
    tiny = with_tiny_values(recipe, path.name).train
    model = tiny.model if train.model.init and tiny else train.model  # the given weights' config is not here
    made = model_config(model, train.objective, TokenizerInfo(32_000, train.length, bos=0, eos=2, pad=1))
    assert made["model_type"]
    assert not train.validation.every_steps or train.labelled.folds or (recipe.dataset or DatasetConfig()).validation
    if train.masking.whole_word:
        assert recipe.corpus.segmenter != "none"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_list_of_recipes_is_whole(path: Path) -> None:
    assert f"({path.name})" in (ROOT / "data_recipes" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_labelled_rows_come_with_their_recipe_and_can_be_read(path: Path) -> None:
    train = with_tiny_values(load_recipe(path), path.name).train
    assert train
    for file in train.data if train.has_labelled_rows else ():
        rows = list(
            read_labelled_rows(Path(file), train.labelled, "regress" if train.task == "regress" else "classify")
        )
        assert len({row.text for row in rows}) == len(rows) >= 200
        folds = [fold_of(row, train.labelled) for row in rows]
        assert set(folds) == set(range(train.labelled.folds))


def test_conversations_come_with_their_recipe_and_can_be_read() -> None:
    train = with_tiny_values(load_recipe(ROOT / "data_recipes" / "chat-ja.toml"), "chat-ja.toml").train
    assert train and train.task == "sft"
    found = [each for file in train.data for each in read_conversations(Path(file), train.sft)]
    assert len(found) == 24 and all(each.messages[-1]["role"] == "assistant" for each in found)


TRAINING = [
    config.TrainConfig,
    config.ModelConfig,
    config.OptimizerConfig,
    config.ScheduleConfig,
    config.CheckpointConfig,
]
SECTIONS = [
    *(Recipe, CorpusConfig, Source, RemoteFile, DedupConfig, TokenizerConfig, DatasetConfig, MixConfig, MixStage),
    *(*TRAINING, config.ValidationConfig, MaskingConfig, LabelledConfig),
]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_documented(section: type) -> None:
    for key in section.__struct_fields__:  # type: ignore[attr-defined]
        assert re.search(rf"^\| `{key}` \|", DOCUMENTATION, re.MULTILINE), key


def test_the_documented_example_is_a_recipe() -> None:
    examples = re.findall(r"```toml\n(.*?)```", DOCUMENTATION, re.DOTALL)
    recipe = decode_recipe(tomllib.loads("\n".join(examples)))
    assert recipe.name == "example"
    check_recipe(recipe, "the example")
    assert recipe.tokenizer and recipe.tokenizer.special == ["roberta", "<sep2>"]
    assert recipe.train and recipe.train.backend == {"torch": {"compile": True}}
