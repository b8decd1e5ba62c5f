"""`--scale tiny`: model, steps and data are small, and everything else is unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.pipeline.recipe import Recipe, check_recipe, decode_recipe, load_recipe, with_tiny_values
from jprep.pipeline.steps import wanted_steps
from jprep.pipeline.tiny_scale import BATCH, LENGTH, STEPS, list_changes, scale_down
from jprep.train.job.config import TrainConfig
from jprep.train.models import FAMILIES, PRESETS, TokenizerInfo, model_config
from jprep.train.optimization.schedule import check_schedule
from tests.conftest import ROOT

SOURCES = [
    {"name": "wiki", "paths": ["a.xml"], "reader": {"use": "wikipedia", "namespaces": [0, 100]}},
    {"name": "web", "paths": ["b.txt"], "reader": "cc100", "filters": ["japanese"]},
]
TRAIN: dict[str, Any] = {
    "task": "mlm",
    "model": {"preset": "roberta-base", "config": {"hidden_dropout_prob": 0.2, "num_hidden_layers": 3}},
    "batch": 256,
    "length": 512,
    "packing": "complete",
    "masking": {"rate": 0.2, "whole_word": True},
    "steps": 1000,
    "precision": "bf16",
    "optimizer": {"lr": 1e-3, "beta2": 0.98},
    "schedule": {"kind": "cosine", "warmup": 100, "floor": 0.1},
    "checkpoint": {"every_steps": 500, "keep_best": 1},
    "validation": {"every_steps": 400},
    "log_every": 50,
    "backend": {"torch": {"rows": 64, "compile": True}},
}


def recipe(train: dict[str, Any] = TRAIN, **more: Any) -> Recipe:
    raw = {"name": "big", "corpus": {"sources": SOURCES, "segmenter": "none"}, "train": train}
    raw["tokenizer"] = {"model": "unigram", "vocab_size": 32_000, "special": ["roberta"]}
    return decode_recipe(raw | more)


def trained(**other: Any) -> TrainConfig:
    """The tiny recipe's `[train]`."""
    section = {key: value for key, value in (TRAIN | other).items() if value is not None}
    train = scale_down(recipe(section)).train
    assert train
    return train


def test_model_steps_and_data_are_cut() -> None:
    small = scale_down(recipe())
    train = small.train
    assert train and small.tokenizer
    assert small.name == "big-tiny"
    assert (train.steps, train.batch, train.length) == (STEPS, BATCH, LENGTH)
    assert train.model.preset == "roberta-tiny"
    assert small.tokenizer.vocab_size < 32_000
    assert [source.shards for source in small.corpus.sources] == [1, 1]


def test_everything_else_stays() -> None:
    before, small = recipe(), scale_down(recipe())
    train, was = small.train, before.train
    assert train and was and small.tokenizer
    for key in ("task", "packing", "masking", "precision", "optimizer", "seed", "trackers"):
        assert getattr(train, key) == getattr(was, key)
    assert (train.schedule.kind, train.schedule.floor, train.checkpoint.keep_best) == ("cosine", 0.1, 1)
    assert train.model.config == {"hidden_dropout_prob": 0.2}
    assert train.backend == {"torch": {"compile": True}}
    assert (small.tokenizer.model, small.tokenizer.special) == ("unigram", ["roberta"])
    assert small.corpus.sources[0].reader == {"use": "wikipedia", "namespaces": [0, 100], "shard_mb": 1}
    assert small.corpus.sources[1].filters == ["japanese"]
    assert small.corpus.segmenter == "none"


def test_periodic_actions_still_happen() -> None:
    train = trained()
    assert train.schedule.warmup == 2
    assert 1 < train.checkpoint.every_steps < STEPS and 1 < train.validation.every_steps < STEPS
    assert train.log_every < STEPS
    never = trained(checkpoint={"every_steps": 0}, validation={"every_steps": 0}, schedule={})
    assert (never.checkpoint.every_steps, never.validation.every_steps, never.schedule.warmup) == (0, 0, 0)


def test_a_trial_is_copied_nowhere() -> None:
    """The mirror would be taken for that of the whole run, which is refused there then."""
    train = trained(checkpoint={"every_steps": 500, "mirror": "s3://bucket/run"}, push={"to": "me/model"})
    assert (train.checkpoint.mirror, train.push.to) == ("", "")


def test_a_warm_up_never_takes_the_whole_run() -> None:
    """A recipe whose steps were cut by --set has a warm-up that is longer than the run."""
    assert trained(steps=60, schedule={"warmup": 2000}).schedule.warmup == STEPS // 2


def test_epochs_become_steps() -> None:
    train = trained(steps=None, epochs=2.5)
    assert (train.steps, train.epochs) == (STEPS, 0.0)
    check_schedule(train.schedule, train.steps)


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_a_recipe_that_is_small_already_keeps_its_numbers(steps: int) -> None:
    own = {"steps": steps, "batch": 2, "length": 16, "schedule": {"warmup": steps - 1}, "log_every": 1}
    train = trained(**own, checkpoint={"every_steps": 1})
    assert (train.steps, train.batch, train.length, train.log_every) == (steps, 2, 16, 1)
    assert (train.schedule.warmup, train.checkpoint.every_steps) == (steps - 1, 1)


def test_given_weights_are_left_out_because_they_would_not_fit() -> None:
    assert trained(model={"preset": "bert-base", "init": "w.safetensors"}).model.init == ""


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_becomes_a_model_of_its_kind(preset: str) -> None:
    task = "clm" if FAMILIES[PRESETS[preset]["model_type"]].causal else "mlm"
    section = trained(task=task, model={"preset": preset}).model
    small, big = (
        model_config(each, task, TokenizerInfo(1000, LENGTH, 0, 2, 1))
        for each in (section, msgspec.convert({"preset": preset}, type(section)))
    )
    sizes = {key for key in small if small[key] != big[key]}
    assert small["architectures"] == big["architectures"]
    assert all(isinstance(small[key], int) and not isinstance(small[key], bool) for key in sizes)
    assert sizes or preset.endswith("-tiny")


def test_a_model_without_a_preset_keeps_all_but_its_sizes() -> None:
    config = {"model_type": "llama", "hidden_size": 2048, "head_dim": 64, "rope_theta": 5e5, "mlp_bias": True}
    section = trained(task="clm", model={"config": config}).model
    assert section.preset == "llama-tiny"
    assert (section.config["rope_theta"], section.config["mlp_bias"]) == (5e5, True)
    assert not {"hidden_size", "head_dim"} & set(section.config)


def test_labelled_rows_become_shorter() -> None:
    labelled = {"length": 512, "buckets": [64, 256], "folds": 5}
    train = trained(task="classify", data=["a.jsonl"], labelled=labelled)
    assert (train.labelled.length, train.labelled.buckets, train.labelled.folds) == (LENGTH, [64], 5)


def test_scaling_down_keeps_the_steps() -> None:
    labelled = {"task": "classify", "data": ["a.jsonl"], "epochs": 1, "model": {"preset": "bert-base"}}
    for made in (recipe(), recipe(labelled), recipe({}), decode_recipe({"name": "r", "corpus": {"sources": SOURCES}})):
        assert wanted_steps(scale_down(made)) == wanted_steps(made)


def test_own_values_replace_those_of_the_recipe() -> None:
    tiny = {
        "corpus": {"sources": {"1": {"paths": ["c.txt"]}}, "segmenter": "spaces"},
        "train": {"optimizer": {"lr": 1.0}},
    }
    before = recipe(tiny=tiny)
    small = with_tiny_values(scale_down(before), "r.toml")
    assert [source.paths for source in small.corpus.sources] == [["a.xml"], ["c.txt"]]
    assert small.corpus.sources[1].filters == ["japanese"] and small.corpus.segmenter == "spaces"
    assert small.train and (small.train.optimizer.lr, small.train.optimizer.beta2, small.train.steps) == (
        1.0,
        0.98,
        STEPS,
    )
    assert 'corpus.segmenter: was "none", is "spaces"' in list_changes(before, small)
    assert before.corpus.segmenter == "none"


def test_a_step_of_its_own_replaces_the_recipe_s_whole() -> None:
    small = with_tiny_values(recipe(tiny={"corpus": {"sources": {"0": {"reader": {"use": "jsonl"}}}}}), "r.toml")
    assert small.corpus.sources[0].reader == {"use": "jsonl"}


@pytest.mark.parametrize(
    ("tiny", "message"),
    [
        ({"corpus": {"segmentor": "none"}}, "segmentor"),
        ({"corpus": {"sources": {"2": {"name": "x"}}}}, "there is no '2'"),
        ({"train": {"steps": "many"}}, "steps"),
    ],
)
def test_own_values_are_checked_at_any_scale(tiny: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        check_recipe(recipe(tiny=tiny), "r.toml")
    assert "[tiny]" in str(error.value)


def test_changes_are_listed_by_key() -> None:
    before = recipe()
    changes = list_changes(before, scale_down(before))
    assert 'train.model.preset: was "roberta-base", is "roberta-tiny"' in changes
    assert "train.batch: was 256, is 8" in changes
    assert not any("optimizer" in line or "packing" in line for line in changes)


@pytest.mark.parametrize("path", sorted((ROOT / "data_recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_can_be_scaled_down(path: Any) -> None:
    small = with_tiny_values(scale_down(load_recipe(path)), path.name)
    assert decode_recipe(msgspec.to_builtins(small)) == small
    if small.train:
        assert small.train.steps == STEPS


def test_a_generator_s_weights_are_dropped_with_the_discriminator_s() -> None:
    train = {"task": "rtd", "steps": 50, "model": {"preset": "electra-small", "init": "large"}}
    made = decode_recipe({"name": "r", "train": train | {"rtd": {"generator_init": "small"}}})
    scaled = scale_down(made).train
    assert scaled and (scaled.model.init, scaled.rtd.generator_init) == ("", "")
