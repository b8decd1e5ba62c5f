"""Complete errors that name an option of a reader with where to set it: in the recipe, or on the command line."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.cli.common.shell_command import current_command, shell_quote
from jprep.errors import ConfigError, JprepError

if TYPE_CHECKING:
    from jprep.corpus.config import CorpusRecipe, Source, StepRef

_FIELD = "corpus.sources.{}.reader"


@contextlib.contextmanager
def explain_reader_options(recipe: CorpusRecipe, file: Path | None, *, restart: bool = True) -> Iterator[None]:
    """Add the reader's table, with the option set, to the fix of an error in an input.

    Args:
        recipe: the recipe.
        file: its file; None where the inputs are options of the command.
        restart: whether the command has the option `--restart`, which other options of a reader need.
    """
    try:
        yield
    except JprepError as error:
        if hint := _hint(recipe, error, file, restart):
            raise type(error)(error.what, where=error.where, fix=f"{error.fix}\n         {hint}") from error
        raise


def _hint(recipe: CorpusRecipe, error: JprepError, file: Path | None, restart: bool) -> str:
    """Return where to set the option that an error's fix names; "" if it names none."""
    for number, source in enumerate(recipe.corpus.sources):
        if _reads(source, error.where) and (option := _option(source.reader, error.fix)):
            table = _table(source.reader, *option)
            if file:
                then = "\n         then add --restart" if restart else ""
                return f"in {file}, source {source.name}:  reader = {table}{then}"
            setting = shell_quote(f"{_FIELD.format(number)}={table}")
            return f"{current_command()} --set {setting} --restart"
    return ""


def _reads(source: Source, where: str) -> bool:
    """Return whether an error happened in one of a source's inputs."""
    from jprep.io.inputs.paths import expand_patterns

    with contextlib.suppress(ConfigError):
        return any(f"{where},".startswith(f"{path},") for path in expand_patterns(source.paths))
    return False


def _option(reader: StepRef, fix: str) -> tuple[str, Any] | None:
    """Return the reader's option that a fix names, with the value that it gives, or twice the present value."""
    from jprep.corpus.config import step_name
    from jprep.plugins import plugins

    config = plugins().get("reader", step_name(reader)).Config()
    given = reader if isinstance(reader, dict) else {}
    for name in config.__struct_fields__:
        if found := re.search(rf"\b{name}\b(?: = (\"[^\"]*\"|[\w.]*\w))?", fix):
            if found[1]:
                return name, json.loads(found[1])
            value = given.get(name, getattr(config, name))
            if isinstance(value, int | float):
                return name, value * 2
    return None


def _table(reader: StepRef, name: str, value: Any) -> str:
    """Return the reader's table in TOML, with an option set."""
    options = {"use": reader} if isinstance(reader, str) else dict(reader)
    options[name] = value
    return "{ " + ", ".join(f"{key} = {json.dumps(each, ensure_ascii=False)}" for key, each in options.items()) + " }"
