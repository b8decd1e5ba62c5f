"""The Python environments of backends: where they are, and what is installed in each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from jprep.typed_json import decode_json

ENVIRONMENTS_VARIABLE = "JPREP_BACKENDS"
STAMP = "jprep-backend.json"

_CACHE = ("XDG_CACHE_HOME", ".cache", "Library/Caches")
"""Where earlier versions of jprep created environments."""


class InstalledEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """`jprep-backend.json`, written last: without it, an environment is incomplete.

    Attributes:
        name: the environment's name.
        requires: the requirements given to pip.
        python: the version of Python.
        packages: the version of every installed distribution.
        constraints: the constraints given to pip.
        bare: the requirements that were installed with `--no-deps`.
    """

    name: str
    requires: list[str]
    python: str
    packages: dict[str, str]
    constraints: list[str] = []
    bare: list[str] = []


def default_environment_folder() -> Path:
    """Return the folder in which environments are created.

    It is `JPREP_BACKENDS` if set; else `backends` in the virtual environment that jprep runs in, so that every shell
    finds them; else, without a writable virtual environment, the user's data folder.
    """
    return environment_folders()[0]


def environment_folders() -> list[Path]:
    """Return the folders in which environments are searched, the one for new environments first."""
    if given := os.environ.get(ENVIRONMENTS_VARIABLE):
        return [Path(given).expanduser()]
    own = Path(sys.prefix)
    if (own / STAMP).exists():  # a worker, which runs in one of them
        return [own.parent]
    virtual = [own / "backends"] if sys.prefix != sys.base_prefix else []
    users = [_user_folder("XDG_DATA_HOME", ".local/share", "Library/Application Support"), _user_folder(*_CACHE)]
    return [*virtual, *users] if os.access(own, os.W_OK) else [*users, *virtual]


def _user_folder(variable: str, linux: str, macos: str) -> Path:
    given = os.environ.get(variable)
    if sys.platform == "darwin":
        return Path.home() / macos / "jprep" / "backends"
    return (Path(given) if given else Path.home() / linux) / "jprep" / "backends"


def read_stamp(path: Path) -> InstalledEnvironment | None:
    """Return what is installed in an environment; None if it is incomplete."""
    try:
        return decode_json((path / STAMP).read_bytes(), InstalledEnvironment)
    except (OSError, ValueError):
        return None


def interpreter(path: Path) -> Path:
    """Return the path of an environment's Python."""
    return path / "bin" / "python"
