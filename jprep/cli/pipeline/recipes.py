"""`jprep recipes`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import content_stream, echo, echo_json, next_steps, print_columns
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import shell_command
from jprep.cli.completion.candidates import RECIPE_NAME

_FIRST = "jawiki"
"""The recipe that is suggested first."""


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def recipes(context: click.Context, as_json: bool) -> None:
    """List the recipes that come with jprep: what for, model and backend. `jprep run NAME` runs one.

    Copy one to change it, or change single keys with --set. `jprep init` writes one of your own.

    \b
    Example:
      jprep recipes
      jprep recipes show jawiki
    """
    if not context.invoked_subcommand:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError("--json is for the list of recipes")


def _list(*, as_json: bool) -> None:
    from jprep.pipeline.shipped_recipes import recipe_backend, recipe_model, shipped_recipes

    found = shipped_recipes()
    rows = {path: (path.stem, recipe_model(each), recipe_backend(each)) for path, each in found.items()}
    if as_json:
        keys = ("name", "model", "backend")
        listed = zip(rows.values(), found.items(), strict=True)
        echo_json(
            [
                {"path": str(path), "about": each.description, **dict(zip(keys, row, strict=True))}
                for row, (path, each) in listed
            ]
        )
        return
    print_columns(
        [("name", "model", "backend", "what for"), *((*rows[p], each.description) for p, each in found.items())]
    )
    if found:
        first = next((path.stem for path in found if path.stem == _FIRST), next(iter(found)).stem)
        copy = shell_command("recipes", "copy", first, f"my-{first}.toml")
        next_steps(shell_command("run", first, "--dry-run"), copy, shell_command("init"))


@recipes.command()
@click.argument("recipe", metavar="NAME", type=RECIPE_NAME)
def show(recipe: Path) -> None:
    """Print the file of a recipe.

    \b
    Example:
      jprep recipes show jawiki
    """
    content_stream().write(recipe.read_text(encoding="utf-8"))


@recipes.command()
@click.argument("recipe", metavar="NAME", type=RECIPE_NAME)
@click.argument("file", metavar="FILE.toml", type=OUTPUT_PATH)
@click.option("--force", is_flag=True, help="Replace existing files.")
def copy(recipe: Path, file: Path, force: bool) -> None:
    """Copy a recipe, and the files beside it that it reads, to change it.

    \b
    Example:
      jprep recipes copy jawiki my-jawiki.toml
    """
    from jprep.pipeline.shipped_recipes import copy_recipe
    from jprep.pipeline.starter.starter_recipe import refuse_existing

    refuse_existing(file, force=force)
    for path in copy_recipe(recipe, file, force=force):
        echo(str(path))
    next_steps(shell_command("run", file, "--scale", "tiny"), shell_command("run", file, "--dry-run"))
