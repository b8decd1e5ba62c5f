"""Complete errors that name an option of a source with where to set it: in the recipe, or on the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.cli.common.shell_command import current_words, shell_command
from jprep.errors import ConfigError, JprepError, Setting
from jprep.io.inputs.paths import all_exist, expand_patterns
from jprep.pipeline.recipe import RECIPE_DIRECTORY
from jprep.toml_values import toml

if TYPE_CHECKING:
    from jprep.corpus.config import CorpusRecipe, Source, StepRef

_RESTART = "--restart"
_FIELD = "corpus.sources.{}.reader"


@contextlib.contextmanager
def explain_reader_options(
    recipe: CorpusRecipe, file: Path | None, *, restart: bool = True, output: Path | None = None
) -> Iterator[None]:
    """Add the reader's table, with the option set, or the path that exists, to the fix of an error in an input.

    Args:
        recipe: the recipe.
        file: its file; None where the inputs are options of the command.
        restart: whether the command has the option `--restart`, which other options of a reader need.
        output: output directory of the command, if known: a wrong option that has left none needs no `--restart`.
    """
    try:
        yield
    except JprepError as error:
        is_new = isinstance(error, ConfigError) and output is not None and not output.exists()
        if hint := _beside(error, file) or _hint(recipe, error, file, restart and not is_new):
            raise error.replace(fix=f"{error.fix}\n         {hint}") from error
        raise


def _beside(error: JprepError, file: Path | None) -> str:
    """Return the path of an input that is missing here and exists beside the recipe; "" if it does not."""
    is_missing = error.setting is not None and error.setting.name == "paths"
    if file and is_missing and all_exist([str(file.parent / error.where)]):
        return f'in {file}:  "{RECIPE_DIRECTORY}{error.where}"'
    return ""


def _hint(recipe: CorpusRecipe, error: JprepError, file: Path | None, restart: bool) -> str:
    """Return where to set the option that fixes an error; "" if none does."""
    if not error.setting:
        return ""
    for number, source in enumerate(recipe.corpus.sources):
        if _reads(source, error.where) and (table := _table(source.reader, error.setting)):
            if file:
                then = "\n         then add --restart" if restart and _RESTART not in current_words() else ""
                return f"in {file}, source {source.name}:  reader = {table}{then}"
            field = _FIELD.format(number)
            return shell_command(*_without_settings(field), "--set", f"{field}={table}", *[_RESTART] * restart)
    return ""


def _without_settings(field: str) -> list[str]:
    """Return this command's arguments without --restart, and without settings of a field and of what is in it."""
    words, keys = current_words(flags=[_RESTART]), (f"{field}=", f"{field}.")
    given = [i for i, (option, value) in enumerate(pairwise(words)) if option == "--set" and value.startswith(keys)]
    dropped = {place for i in given for place in (i, i + 1)}
    joined = tuple(f"--set={key}" for key in keys)
    return [word for i, word in enumerate(words) if i not in dropped and not word.startswith(joined)]


def _reads(source: Source, where: str) -> bool:
    """Return whether an error happened in one of a source's inputs."""
    with contextlib.suppress(ConfigError):
        return any(f"{where},".startswith(f"{path},") for path in expand_patterns(source.paths))
    return False


def _table(reader: StepRef, setting: Setting) -> str:
    """Return the reader's table in TOML, with an option set; "" if the reader has no such option."""
    from jprep.corpus.config import step_name
    from jprep.plugins import plugins

    config = plugins().get("reader", step_name(reader)).Config()
    if setting.name not in config.__struct_fields__:
        return ""
    options: dict[str, Any] = {"use": reader} if isinstance(reader, str) else dict(reader)
    larger = 2 * options.get(setting.name, getattr(config, setting.name)) if setting.value is None else setting.value
    options[setting.name] = larger
    return toml(options)
