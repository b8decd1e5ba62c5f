"""What shells complete besides options and files: recipes and plugins. Everything is imported when it is needed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PLAIN = re.compile(r"[\w./~@%+=:-]+")
"""File names that mean themselves in a shell; bash gets no others, because click quotes nothing for it."""


def complete_recipe(incomplete: str) -> list[CompletionItem]:
    """Return recipes: those that come with jprep by name, and files.

    The shell completes the files. bash does so only where nothing else is offered, so it gets the names of recipes in
    files along with the others.
    """
    from click.shell_completion import CompletionItem

    from jprep.pipeline.recipes_folder import recipe_files

    names = [] if "/" in incomplete else [name for name in recipe_files() if name.startswith(incomplete)]
    files = _own_files(incomplete) if os.environ.get("_JPREP_COMPLETE") == "bash_complete" and names else []
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, [*files, *names])]


def _own_files(incomplete: str) -> list[str]:
    try:
        return sorted(
            path.name
            for path in Path().iterdir()
            if path.name.startswith(incomplete) and path.suffix == ".toml" and _PLAIN.fullmatch(path.name)
        )
    except OSError:
        return []


class RecipePath(click.Path):
    """A recipe's file, or the name of one that comes with jprep, such as `jawiki`, unless a file is called so."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the recipe's file."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.name != str(path) or path.suffix or path.exists():
            return path
        from jprep.pipeline.recipes_folder import recipe_files

        return recipe_files().get(path.name, path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return names and files."""
        return complete_recipe(incomplete)


RECIPE_PATH = RecipePath()


class RecipeName(RecipePath):
    """The name of a recipe that comes with jprep."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the recipe's file.

        Raises:
            click.BadParameter: there is no such recipe.
        """
        from jprep.config import suggest_name
        from jprep.pipeline.recipes_folder import recipe_files

        found = recipe_files()
        if str(value) not in found:
            self.fail(f"no recipe is called {value!r}; {suggest_name(str(value), found)}", param, ctx)
        return found[str(value)]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names."""
        from click.shell_completion import CompletionItem

        from jprep.pipeline.recipes_folder import recipe_files

        return [CompletionItem(name) for name in recipe_files() if name.startswith(incomplete)]


RECIPE_NAME = RecipeName()


class Pattern(click.types.StringParamType):
    """A text that names files: a path, a pattern, a URL or `-`."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class PluginName(click.types.StringParamType):
    """The name of a step, an executor or a backend.

    Args:
        kind: one of `jprep.plugins.manager.PLUGIN_KINDS`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that are known here."""
        from click.shell_completion import CompletionItem

        from jprep.plugins import plugins

        return [CompletionItem(name) for name in plugins().names(self._kind) if name.startswith(incomplete)]


PATTERN = Pattern()
NORMALIZER, SPLITTER, SEGMENTER = PluginName("normalizer"), PluginName("splitter"), PluginName("segmenter")
EXECUTOR_NAME, BACKEND_NAME = PluginName("executor"), PluginName("backend")
