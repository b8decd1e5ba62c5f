"""Check names and relative paths that come from recipes and manifests before they become parts of paths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jprep.errors import ConfigError

MAX_BYTES = 150
"""Maximum length of a name in UTF-8. File systems allow 255 bytes, and suffixes are added."""


def name_problem(name: str) -> str:
    """Return why a text cannot name a file or a directory, or ""."""
    if not name.strip():
        return "it is empty"
    if any(separator in name for separator in "/\\"):
        return "it contains a path separator"
    if name.startswith("."):
        return "it begins with a dot"
    if not name.isprintable():
        return "it contains a character that cannot be printed"
    if name != name.strip():
        return "it begins or ends with a space"
    size = len(name.encode())
    return f"it has {size} bytes in UTF-8, more than {MAX_BYTES}" if size > MAX_BYTES else ""


def check_name(name: str, *, what: str, where: str, fix: str) -> None:
    """Refuse a text that cannot name a file or a directory.

    Args:
        name: the text; letters of any language are allowed.
        what: what it names, e.g. `a recipe`.
        where: the file and the key.
        fix: e.g. `name = "jawiki"`.

    Raises:
        ConfigError: it cannot; the message says why.
    """
    if problem := name_problem(name):
        raise ConfigError(f"{what} cannot be called {name!r}: {problem}", where=where, fix=fix)


def check_unique_names(names: Sequence[str], *, what: str, key: str, where: str) -> None:
    """Refuse names of a list of tables that are not allowed or not unique.

    These names appear in reports, option values and file names, so fewer characters are allowed than in other names:
    letters of any language, digits, `-`, `_` and `.`.

    Args:
        names: the tables' names.
        what: what one of them names, without an article: `source`.
        key: the list's key: `corpus.sources`.
        where: the recipe.

    Raises:
        ConfigError: a name that is not allowed or used twice.
    """
    for number, name in enumerate(names):
        subject, fix = f"a {what} (key `{key}.{number}.name`)", "letters, digits, - _ . only"
        check_name(name, what=subject, where=where, fix=fix)
        if not re.fullmatch(r"[\w.-]+", name):
            problem = f"{subject} cannot be called {name!r}: it has other characters"
            raise ConfigError(problem, where=where, fix=fix)
        if names.count(name) > 1:
            raise ConfigError(f"two {what}s are called {name!r}", where=where, fix="give each its own name")


def inner_path(path: str) -> str:
    """Return a path of a manifest if it is that of a file below the manifest's directory.

    Raises:
        ValueError: it is empty, absolute, or has a part like `..`; `msgspec` turns this into its own error.
    """
    parts = path.split("/")
    if "\\" in path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not the path of a file below this directory")
    return path
