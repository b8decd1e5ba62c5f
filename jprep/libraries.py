"""Import libraries that jprep does not require, and tell their versions."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jprep.errors import MachineError


def import_library(name: str, need: str, install: str, where: str = "") -> Any:
    """Return a module.

    Args:
        name: name of the module.
        need: what needs which library, e.g. `plots need matplotlib`.
        install: what `pip install` needs to install it, e.g. `'jprep[report]'`.
        where: what the error names as its place.

    Raises:
        MachineError: it cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        what = f"{need}, which cannot be imported: {error}"
        raise MachineError(what, where=where, fix=f"pip install {install}") from error


def installed_version(distribution: str) -> str:
    """Return the version of a distribution; `another package` if its module comes from somewhere else."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "another package"
