"""Recipes of published systems have the published values, in the plan that a user gets for the published machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.pipeline.planned_recipe import plan_recipe
from tests.unit.pipeline.published_values import ACCOUNTS, Published


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planned")


@pytest.mark.parametrize(
    ("recipe", "published"),
    [pytest.param(name, value, id=f"{name}: {value.what}") for name, values in ACCOUNTS.items() for value in values],
)
def test_a_plan_has_the_published_value(recipe: str, published: Published, folder: Path) -> None:
    assert published.planned(plan_recipe(recipe, folder / recipe)) == published.expected
