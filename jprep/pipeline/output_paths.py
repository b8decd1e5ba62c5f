"""Paths of a recipe's outputs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal, NamedTuple

from jprep.corpus.store import MANIFEST
from jprep.dataset.manifest import DATASET_JSON
from jprep.errors import ConfigError
from jprep.io.safe_names import check_name
from jprep.pipeline.recipe import Recipe
from jprep.tokenizer.card import CARD_JSON
from jprep.tokenizer.external.files import is_external, resolve_tokenizer

WORK = Path("work")
"""The directory of all recipes' outputs unless `--work` names another."""

MadeStep = Literal["corpus", "tokenizer", "dataset"]

_MADE: dict[MadeStep, tuple[str, str]] = {
    "corpus": (MANIFEST, "corpus build"),
    "tokenizer": (CARD_JSON, "tokenizer train"),
    "dataset": (DATASET_JSON, "dataset pack"),
}
"""The file that a finished output has, and the command that makes it."""


class OutputPaths(NamedTuple):
    """Directories of a recipe's outputs, existing or not.

    Attributes:
        corpus: of `jprep corpus build`.
        tokenizer: of `jprep tokenizer train`.
        dataset: of `jprep dataset pack`.
        runs: the parent of its run directories.
    """

    corpus: Path
    tokenizer: Path
    dataset: Path
    runs: Path


def output_paths(work: Path, name: str) -> OutputPaths:
    """Return the directories of a recipe's outputs.

    Args:
        work: the directory of all recipes' outputs.
        name: the recipe's name.

    Raises:
        ConfigError: the name cannot name a folder.
    """
    check_name(name, what="a recipe", where="name", fix='e.g. name = "jawiki"')
    return paths_in(work / name)


def paths_in(folder: Path) -> OutputPaths:
    """Return the directories of the outputs of one recipe, given their common parent."""
    return OutputPaths(*(folder / each for each in OutputPaths._fields))


def find_finished(step: MadeStep, recipe: Recipe, path: Path, work: Path, given: Path | None = None) -> Path:
    """Return the directory of an earlier step's finished output.

    Args:
        step: the step.
        recipe: the recipe.
        path: its file, for the command in the error.
        work: the directory of all recipes' outputs.
        given: the output's directory, if it is not the default one.

    Raises:
        ConfigError: the output does not exist or is not finished; the fix is the command that makes it.
    """
    manifest, command = _MADE[step]
    if step == "tokenizer" and given:
        given = resolve_tokenizer(given)
        if is_external(given):
            return given
    output: Path = given or getattr(output_paths(work, recipe.name), step)
    if (output / manifest).exists():
        return output
    if given and not given.exists():
        fix = f"correct --{step}, or leave it out: the default is {output_paths(work, recipe.name)._asdict()[step]}"
        raise ConfigError(f"the directory given as --{step} does not exist", where=str(given), fix=fix)
    own = bool(recipe.corpus.sources)
    options = ("" if own else " --corpus DIR") + ("" if work == WORK else f" --work {shlex.quote(str(work))}")
    fix = f"run `jprep {command} {shlex.quote(str(path))}{options}`, or give its directory as --{step}"
    if step == "corpus" and not own:
        fix = "this recipe has no corpus of its own: name one with --corpus DIR"
    if step == "tokenizer" and recipe.train and recipe.train.model.init and recipe.train.model.vocabulary == "same":
        fix = "give the folder of the tokenizer of train.model.init as --tokenizer"
    what = f"there is no finished {step} here" if given else f"the recipe's {step} does not exist yet"
    raise ConfigError(what, where=str(output), fix=fix)
