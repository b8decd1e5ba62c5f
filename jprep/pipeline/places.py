"""Where a recipe's outputs lie."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal, NamedTuple

from jprep.corpus.recipe import Recipe
from jprep.corpus.store import MANIFEST
from jprep.dataset.spec import DATASET
from jprep.errors import ConfigError
from jprep.io.names import check_name
from jprep.tokenizer.card import CARD

WORK = Path("work")
"""Where outputs go unless `--work` says otherwise."""

Kind = Literal["corpus", "tokenizer", "dataset"]

_MADE: dict[Kind, tuple[str, str]] = {
    "corpus": (MANIFEST, "corpus build"),
    "tokenizer": (CARD, "tokenizer train"),
    "dataset": (DATASET, "dataset pack"),
}
"""What is in each folder once it is finished, and the command that makes it."""


class Places(NamedTuple):
    """The folders of a recipe's outputs, whether they are there or not.

    Attributes:
        corpus, tokenizer, dataset: of `jprep corpus build`, `tokenizer train`, `dataset pack`.
        runs: the folder of its run directories.
    """

    corpus: Path
    tokenizer: Path
    dataset: Path
    runs: Path


def places(work: Path, name: str) -> Places:
    """Where the outputs of a recipe of this name lie.

    Args:
        work: the folder of all recipes' outputs.
        name: the recipe's.

    Raises:
        ConfigError: the name cannot be a folder's.
    """
    check_name(name, what="a recipe", where="name", fix='e.g. name = "jawiki"')
    return Places(*(work / name / each for each in Places._fields))


def finished(kind: Kind, recipe: Recipe, path: Path, work: Path, given: Path | None = None) -> Path:
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
    place: Path = given or getattr(places(work, recipe.name), kind)
    if (place / manifest).exists():
        return place
    own = bool(recipe.corpus.sources)
    options = ("" if own else " --corpus DIR") + ("" if work == WORK else f" --work {shlex.quote(str(work))}")
    fix = f"`jprep {command} {shlex.quote(str(path))}{options}` makes it; or give its folder as --{kind}"
    if kind == "corpus" and not own:
        fix = "this recipe has no corpus of its own: name one with --corpus DIR"
    raise ConfigError(f"the recipe's {kind} is not there", where=str(place), fix=fix)
