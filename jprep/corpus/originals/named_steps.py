"""Steps as the recipes of this process name them: a corpus does not record options such as the path of a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jprep.corpus.config import make_step
from jprep.corpus.step import Step, describe_step
from jprep.errors import ConfigError, JprepError
from jprep.plugins.files import PROVENANCE
from jprep.plugins.manager import plugins
from jprep.plugins.recipe_options import recipe_options


def named_step(kind: str, described: Mapping[str, Any]) -> Step | None:
    """Return the step that a manifest describes, as a recipe of this process names it; None if none does.

    Raises:
        ConfigError: a file of the step is gone or another one, or no recipe has named it. A file is only used if it
            has the hash that the manifest records.
    """
    if PROVENANCE in described.get("provenance", {}):  # a class of a file, which is found by its hash
        return None
    problem: JprepError | None = None
    for ref in recipe_options(kind, described["name"]):
        try:
            _check_files(kind, ref, described)
            step: Step = make_step(kind, dict(ref))
            if describe_step(step) == described:
                return step
        except JprepError as error:
            problem = error
    if missing := _recorded_files(kind, described):
        if problem:
            raise problem
        what = f"the corpus records the hash of its `{missing[0]}`, and not where it is"
        raise ConfigError(what, fix="name the recipe that has the step (--inputs RECIPE.toml)")
    return None


def _recorded_files(kind: str, described: Mapping[str, Any]) -> list[str]:
    """Return the options of which a manifest records the hash of a file, and not the path."""
    local = plugins().get(kind, described["name"]).local
    return sorted(local & described.get("provenance", {}).keys())


def _check_files(kind: str, ref: Mapping[str, Any], described: Mapping[str, Any]) -> None:
    for option in _recorded_files(kind, described):
        path = Path(str(ref.get(option, "")))
        if path.is_dir():  # a model of several files, whose step compares them
            continue
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            what = f"its `{option}` {path} cannot be read: {error.strerror}"
            raise ConfigError(what, fix="restore the file, or name its place in the recipe") from error
        if found != described["provenance"][option].removeprefix("sha256:"):
            what = f"its `{option}` {path} is not the one that the corpus was built with: the SHA-256 differs"
            raise ConfigError(what, fix="restore the file, or build the corpus again")
