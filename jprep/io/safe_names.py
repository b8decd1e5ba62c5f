"""Names and relative paths that come from outside and become parts of paths: what they may be."""

from __future__ import annotations

from jprep.errors import ConfigError

MAX_BYTES = 150
"""Of a name in UTF-8. File systems take 255, and endings are added to it."""


def name_problem(name: str) -> str:
    """Return why a text cannot name a file or a folder, or ""."""
    if not name.strip():
        return "it is empty"
    if any(separator in name for separator in "/\\"):
        return "it holds a path separator"
    if name.startswith("."):
        return "it begins with a dot"
    if not name.isprintable():
        return "it holds a character that cannot be printed"
    if name != name.strip():
        return "it begins or ends with a space"
    size = len(name.encode())
    return f"it has {size} bytes in UTF-8, more than {MAX_BYTES}" if size > MAX_BYTES else ""


def check_name(name: str, *, what: str, where: str, fix: str) -> None:
    """Refuse a text that cannot name a file or a folder.

    Args:
        name: the text; letters of any language are fine.
        what: what is called so, e.g. `a recipe`.
        where: the file and the key that it is from.
        fix: e.g. `name = "jawiki"`.

    Raises:
        ConfigError: naming what is wrong with it.
    """
    if problem := name_problem(name):
        raise ConfigError(f"{what} cannot be called {name!r}: {problem}", where=where, fix=fix)


def inner_path(path: str) -> str:
    """Return a path that a manifest gives, if it leads to a file below the manifest's folder.

    Raises:
        ValueError: it is empty, absolute, or has a part that is no name: `msgspec` turns this into its own error.
    """
    parts = path.split("/")
    if "\\" in path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is no path of a file below this folder")
    return path
