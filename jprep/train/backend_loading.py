"""Find and load backends' planners and their options, which other packages register."""

from __future__ import annotations

import difflib
import inspect
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jprep.config import apply_overrides
from jprep.errors import ConfigError
from jprep.plugins import plugins
from jprep.train.backend import Backend
from jprep.train.job.config import TrainConfig

DEFAULT_BACKEND = "torch"

FIRST_PARTY_BACKENDS = ("torch", "deepspeed", "flax", "fairseq_xla", "keras")
"""Backends developed in jprep's repository, by the names of their folders."""


def default_backend_name(train: TrainConfig | None) -> str:
    """Return the backend of a `[train]` section: the one that it has options for, if exactly one; else `torch`."""
    return next(iter(train.backend)) if train and len(train.backend) == 1 else DEFAULT_BACKEND


def load_backend(name: str) -> Backend:
    """Load a backend's planner.

    Raises:
        ConfigError: no such backend is installed (the message names the closest), or it does not extend `Backend`.
    """
    try:
        kind = plugins().get("backend", name)
    except ConfigError as error:
        fix = f"{error.fix}; backends are separate packages: {install_command(name)}"
        raise ConfigError(error.what, fix=fix) from error
    if not (isinstance(kind, type) and issubclass(kind, Backend)) or inspect.isabstract(kind):
        what = f"the planner of the backend {name} does not implement jprep.train.backend.Backend"
        raise ConfigError(what, fix="install a version of the backend for this version of jprep")
    return kind()


def load_backend_and_options(name: str, overrides: Iterable[str]) -> tuple[Backend, Any]:
    """Load a backend's planner, and its options without a recipe.

    Args:
        name: the backend's name.
        overrides: `option=value` settings.

    Raises:
        ConfigError: there is no such backend, it has no such option, or a value is of the wrong type.
    """
    backend = load_backend(name)
    return backend, backend.read_options(apply_overrides({}, overrides))


def backend_options(train: TrainConfig, backend: Backend) -> Any:
    """Return the backend's own options from a `[train]` section, checked.

    Raises:
        ConfigError: an unknown option, a value of the wrong type, or options of a backend that looks misspelt.
    """
    known = plugins().names("backend")
    for other in train.backend:
        if other not in known and (close := difflib.get_close_matches(other, known, n=1)):
            where, fix = f"train.backend.{other}", f"did you mean {close[0]!r}?"
            raise ConfigError(f"there is no backend {other!r}", where=where, fix=fix)
    return backend.read_options(train.backend.get(backend.name, {}))


def install_command(backend: str) -> str:
    """Return the command that installs a backend's package: from the checkout, if jprep runs from one, else by name."""
    name = backend.replace("-", "_")
    if name not in FIRST_PARTY_BACKENDS:
        return "install the package that provides it"
    folder = Path(__file__).parents[2] / "backends" / name
    if (folder / "pyproject.toml").exists():
        return f"pip install {shlex.quote(str(folder))}"
    return f"pip install jprep-{name.replace('_', '-')}"
