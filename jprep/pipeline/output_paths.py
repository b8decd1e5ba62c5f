"""Where a recipe's outputs lie."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal, NamedTuple

from jprep.corpus.config import Recipe
from jprep.corpus.store import MANIFEST
from jprep.dataset.manifest import DATASET_JSON
from jprep.errors import ConfigError
from jprep.io.safe_names import check_name
from jprep.tokenizer.card import CARD_JSON

WORK = Path("work")
"""Where outputs go unless `--work` says otherwise."""

MadeStep = Literal["corpus", "tokenizer", "dataset"]

_MADE: dict[MadeStep, tuple[str, str]] = {
    "corpus": (MANIFEST, "corpus build"),
    "tokenizer": (CARD_JSON, "tokenizer train"),
    "dataset": (DATASET_JSON, "dataset pack"),
}
"""What is in each folder once it is finished, and the command that makes it."""


class OutputPaths(NamedTuple):
    """The folders of a recipe's outputs, whether they are there or not.

    Attributes:
        corpus, tokenizer, dataset: of `jprep corpus build`, `tokenizer train`, `dataset pack`.
        runs: the folder of its run directories.
    """

    corpus: Path
    tokenizer: Path
    dataset: Path
    runs: Path


def output_paths(work: Path, name: str) -> OutputPaths:
    """Where the outputs of a recipe of this name lie.

    Args:
        work: the folder of all recipes' outputs.
        name: the recipe's.

    Raises:
        ConfigError: the name cannot be a folder's.
    """
    check_name(name, what="a recipe", where="name", fix='e.g. name = "jawiki"')
    return OutputPaths(*(work / name / each for each in OutputPaths._fields))


def find_finished(kind: MadeStep, recipe: Recipe, path: Path, work: Path, given: Path | None = None) -> Path:
    """The folder of an earlier step's output, which a later step takes.

    Args:
        kind: of which step.
        recipe: the recipe.
        path: its file, for the command that makes what is missing.
        work: the folder of all recipes' outputs.
        given: the folder, if it is not the usual one.

    Raises:
        ConfigError: it is not there, or not finished.
    """
    manifest, command = _MADE[kind]
    place: Path = given or getattr(output_paths(work, recipe.name), kind)
    if (place / manifest).exists():
        return place
    own = bool(recipe.corpus.sources)
    options = ("" if own else " --corpus DIR") + ("" if work == WORK else f" --work {shlex.quote(str(work))}")
    fix = f"`jprep {command} {shlex.quote(str(path))}{options}` makes it; or give its folder as --{kind}"
    if kind == "corpus" and not own:
        fix = "this recipe has no corpus of its own: name one with --corpus DIR"
    raise ConfigError(f"the recipe's {kind} is not there", where=str(place), fix=fix)
