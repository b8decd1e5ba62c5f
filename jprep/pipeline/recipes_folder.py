"""Where the recipes are that come with jprep. Light to import: shell completion uses it."""

from __future__ import annotations

from pathlib import Path

_FOLDER = "data_recipes"


def recipes_folder() -> Path:
    """Return the directory of the recipes: in the installed package, or in the checkout that it runs from."""
    package = Path(__file__).parents[1]
    return next((path for path in (package / _FOLDER, package.parent / _FOLDER) if path.is_dir()), package / _FOLDER)


def recipe_files() -> dict[str, Path]:
    """Return the recipes' files by name, sorted."""
    return {path.stem: path for path in sorted(recipes_folder().glob("*.toml"))}
