"""The recipes that come with jprep."""

from __future__ import annotations

from pathlib import Path

from jprep.corpus.config import Recipe, load_recipe

_FOLDER = "data_recipes"


def recipes_folder() -> Path:
    """Return the folder of the recipes: inside the installed package, or in the checkout that it runs from."""
    package = Path(__file__).parents[1]
    return next((path for path in (package / _FOLDER, package.parent / _FOLDER) if path.is_dir()), package / _FOLDER)


def shipped_recipes() -> dict[Path, Recipe]:
    """Return the recipes by their files, sorted by name."""
    return {path: load_recipe(path) for path in sorted(recipes_folder().glob("*.toml"))}
