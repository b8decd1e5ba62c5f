"""The commands in the comments of the recipes that come with jprep, and Korean text in those of a Korean training."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jprep.corpus.config import make_step
from jprep.pipeline.recipe import load_recipe

FOLDER = Path(__file__).parents[2] / "data_recipes"
KOREAN = ["오늘은 날씨가 매우 좋아서 공원을 산책했습니다.", "빈칸이 사라지면 글을 읽기가 매우 어렵습니다."]


def overrides(recipe: Path) -> Iterator[list[str]]:
    """Yield the values of `--set` of each command in a recipe's comments that names the recipe."""
    comments = (line.removeprefix("#") for line in recipe.read_text(encoding="utf-8").split("\n") if line[:1] == "#")
    for line in "\n".join(comments).replace("\\\n", " ").split("\n"):
        if line.strip().startswith("jprep ") and f"data_recipes/{recipe.name}" in line:
            yield [value for name, value in pairwise(shlex.split(line, comments=True)) if name == "--set"]


@pytest.mark.parametrize("recipe", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_options_in_the_comments_of_a_recipe_are_valid(recipe: Path) -> None:
    for values in overrides(recipe):
        load_recipe(recipe, values)


@pytest.mark.parametrize("name", ["bert-tpu", "electra-tpu", "gpt2-tpu"])
def test_korean_text_keeps_its_spaces(name: str) -> None:
    path = FOLDER / f"{name}.toml"
    recipe = load_recipe(path, next(values for values in overrides(path) if "korean" in " ".join(values)))
    assert [source.name for source in recipe.corpus.sources] == ["korean"]
    text = "\n".join(KOREAN)
    for ref in recipe.corpus.normalizers:
        text = make_step("normalizer", ref).apply(text)
    assert text.split("\n") == KOREAN
