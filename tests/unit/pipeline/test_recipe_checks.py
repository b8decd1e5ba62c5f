"""A recipe is checked whole by every command that takes one: keys that do not exist, and keys that have no effect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.pipeline.recipe import check_recipe, decode_recipe, load_recipe
from jprep.plugins import plugins
from tests.conftest import ROOT, Run, environment

RECIPES = sorted((ROOT / "data_recipes").glob("*.toml"))
CORPUS = {"sources": [{"name": "a", "paths": ["a.txt"], "reader": "text"}], "segmenter": "none"}
TRAIN = {"task": "clm", "model": {"preset": "gpt2-tiny"}, "steps": 10}


def refused(**sections: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check_recipe(decode_recipe({"name": "r", "corpus": CORPUS, **sections}, where="r.toml"), "r.toml")
    assert caught.value.where.startswith(("r.toml", "train.model"))
    return caught.value


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_our_own_recipes_have_no_key_that_does_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_recipe(path)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("sections", "typo", "meant"),
    [
        ({"train": TRAIN | {"bach": 3}}, "bach", "batch"),
        ({"train": TRAIN | {"optimizer": {"lrr": 1}}}, "lrr", "lr"),
        ({"train": TRAIN | {"model": {"presset": "x"}}}, "presset", "preset"),
        ({"train": TRAIN | {"model": {"preset": "gpt2-tiny", "config": {"n_layerr": 2}}}}, "n_layerr", "n_layer"),
        ({"train": TRAIN | {"model": {"preset": "gpt2-tini"}}}, "gpt2-tini", "gpt2-tiny"),
        ({"train": TRAIN | {"masking": {"whole_words": True}}}, "whole_words", "whole_word"),
        ({"train": TRAIN | {"labelled": {"lable": "x"}}}, "lable", "label"),
        ({"train": TRAIN | {"backend": {"troch": {}}}}, "troch", "torch"),
        ({"train": TRAIN | {"backend": {"torch": {"micro_bach": 1}}}}, "micro_bach", "micro_batch"),
        ({"tokenizer": {"vocab": 3}}, "vocab", "vocab_size"),
        ({"tokenizer": {"normalizers": [{"use": "neologdn", "tild": "ignore"}]}}, "tild", "tilde"),
        ({"dataset": {"validate": 0.1}}, "validate", "validation"),
        ({"corpus": CORPUS | {"filters": ["lenght"]}}, "lenght", "length"),
        ({"corpus": CORPUS | {"filters": [{"use": "length", "min_char": 3}]}}, "min_char", "min_chars"),
        ({"corpus": CORPUS | {"splitter": {"use": "rules", "quotes": 1, "quote": 2}}}, "quote", ""),
    ],
)
def test_a_typo_anywhere_is_found_and_what_was_meant_is_named(sections: dict[str, Any], typo: str, meant: str) -> None:
    error = refused(**sections)
    assert typo in error.what and meant in error.fix


def test_plugins_that_are_not_installed_here_are_not_checked() -> None:
    sections = {"train": TRAIN | {"backend": {"somebodys-own": {"rows": 1}}}, "corpus": CORPUS | {"segmenter": "mine"}}
    check_recipe(decode_recipe({"name": "r", **sections}), "r.toml")
    assert "mine" not in plugins().names("segmenter")


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"tokenizer": {"threads": 4}}, "tokenizer.threads"),
        ({"tokenizer": {"model": "unigram", "crossing": 0.5}}, "tokenizer.crossing"),
        ({"tokenizer": {"boundaries": "none", "crossing": 0.5}}, "tokenizer.crossing"),
        ({"tokenizer": {"boundaries": "super", "crossing": 0.5}}, "tokenizer.crossing"),
        ({"tokenizer": {"sequences": 0.2}}, "tokenizer.sequences"),
        ({"corpus": CORPUS | {"dedup": {"line_min_chars": 3}}}, "corpus.dedup.line_min_chars"),
        ({"train": TRAIN | {"masking": {"whole_word": True}}}, "train.masking"),
        ({"train": TRAIN | {"labelled": {"folds": 3}}}, "train.labelled"),
        ({"train": TRAIN | {"validation_data": ["x.jsonl"]}}, "train.validation_data"),
        ({"train": TRAIN | {"validation": {"batches": 3}}}, "train.validation.batches"),
        ({"train": TRAIN | {"checkpoint": {"keep_best": 1}}}, "train.checkpoint.keep_best"),
        ({"train": TRAIN | {"schedule": {"kind": "constant", "floor": 0.1}}}, "train.schedule.floor"),
        ({"train": TRAIN | {"task": "classify", "model": {}, "data": ["x.jsonl"], "length": 64}}, "train.length"),
        ({"train": TRAIN | {"task": "classify", "model": {}, "data": ["x.jsonl"], "packing": "line"}}, "train.packing"),
        ({"train": TRAIN | {"task": "classify", "model": {}, "data": ["x"], "labelled": {"fold": "f"}}},
         "train.labelled.fold"),
    ],
)  # fmt: skip
def test_a_key_without_effect_is_warned_of_and_may_be_set_back(
    sections: dict[str, Any], key: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = msgspec.json.decode(msgspec.json.encode({"name": "r", "corpus": CORPUS, **sections}))
    check_recipe(decode_recipe(raw), "r.toml")
    [warning] = caplog.messages
    assert warning.startswith(f"r.toml: {key} has no effect: ") and "leave it out" in warning
    if "--set " in warning:
        caplog.clear()
        check_recipe(decode_recipe(raw, [warning.split("--set ")[1]]), "r.toml")
        assert not caplog.messages


COMMANDS = [
    ("corpus", "build"), ("corpus", "fetch"), ("tokenizer", "train"), ("dataset", "pack"), ("train",), ("run",),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_that_takes_a_recipe_finds_a_typo_in_train(
    command: tuple[str, ...], tmp_path: Path, jprep: Run
) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        'name = "r"\n[corpus]\nsegmenter = "none"\nsources = [{ name = "a", paths = ["a.txt"], reader = "text" }]\n'
        '[train]\ntask = "clm"\nsteps = 3\nbach = 3\n'
    )
    done = jprep(*command, recipe, code=2, cwd=tmp_path)
    assert "bach" in done.stderr and "did you mean 'batch'?" in done.stderr
    assert "[train]" in done.stderr and sorted(path.name for path in tmp_path.iterdir()) == ["r.toml"]


def test_no_framework_is_loaded(tmp_path: Path) -> None:
    recipe = next(path for path in RECIPES if "backend" in path.read_text())
    code = (
        "import sys; from pathlib import Path; from jprep.pipeline.recipe import load_recipe\n"
        f"load_recipe(Path({str(recipe)!r}))\n"
        "print({'torch', 'jax', 'flax', 'transformers', 'deepspeed', 'fairseq'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
