"""Recipes that come with jprep."""

from __future__ import annotations

import re
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import write_error
from jprep.io.safe_names import inner_path
from jprep.pipeline.recipe import RECIPE_DIRECTORY, Recipe, load_recipe
from jprep.pipeline.recipes_folder import recipe_files, recipes_folder

_BESIDE = re.compile(re.escape(RECIPE_DIRECTORY) + r"([^\"'\s]+)")


def shipped_recipes() -> dict[Path, Recipe]:
    """Return the recipes by their files, sorted by name."""
    return {path: load_recipe(path) for path in recipe_files().values()}


def recipe_backend(recipe: Recipe) -> str:
    """Return the backend that a recipe has options for, `any` where it names none, "" without training."""
    if recipe.train is None:
        return ""
    return next(iter(recipe.train.backend), "any")


def recipe_model(recipe: Recipe) -> str:
    """Return a recipe's model: a preset, a name of given weights, or a family; "" without training."""
    if recipe.train is None:
        return ""
    model = recipe.train.model
    return model.preset or model.init or str(model.config.get("model_type", ""))


def copy_recipe(recipe: Path, file: Path, *, force: bool = False) -> list[Path]:
    """Copy a recipe and the files beside it that it reads; return what was written, the recipe first.

    Comments that name the recipe's file name the copy instead.

    Args:
        recipe: a recipe's file.
        file: the copy.
        force: whether existing files are replaced.

    Raises:
        ConfigError: a file exists, or is a directory.
        MachineError: a file cannot be written.
    """
    text = recipe.read_text(encoding="utf-8")
    beside = [inner_path(name) for name in dict.fromkeys(_BESIDE.findall(text))]
    copies = {file: text.replace(f"{recipes_folder().name}/{recipe.name}", str(file)).encode()}
    copies |= {file.parent / name: (recipe.parent / name).read_bytes() for name in beside}
    for path, data in copies.items():
        if (path.exists() or path.is_symlink()) and not force and not _is_same(path, data):
            fix = "give another name, or --force to replace it"
            raise ConfigError("the file exists", where=str(path), fix=fix)
    for path, data in copies.items():
        try:
            write_atomic(path, data)
        except OSError as error:
            raise write_error(error, path) from error
    return list(copies)


def _is_same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data
