"""Resolve what a user typed: a local path, or else a name on the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jprep.errors import JprepError
from jprep.hub.download import download
from jprep.hub.names import looks_like_name

_FILES = (".safetensors", ".bin", ".pt", ".pth", ".json", ".model", ".txt", ".toml")


def is_hub_name(text: str) -> bool:
    """Return whether a text is a name on the Hub, and not a path: `org/name`, or `name` as of some old models.

    A revision may follow, as in `org/name@revision`. An existing path is never a name.
    """
    name = text.partition("@")[0]
    return looks_like_name(name) and not name.endswith(_FILES) and not Path(text).expanduser().exists()


def resolve_location(text: str, patterns: Sequence[str] = ()) -> Path:
    """Return a local path; what is a name on the Hub is downloaded to the user's cache.

    Args:
        text: a path, or a name: `org/name`, `name` or `org/name@revision`; the revision is a branch, a tag or a commit.
        patterns: shell patterns of the files to download; by default all.

    Returns:
        The path, which need not exist; for a name on the Hub the folder of its commit.

    Raises:
        ConfigError: there is no such name, or the token is missing or without access.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    if not is_hub_name(text):
        return Path(text).expanduser()
    name, _, revision = text.partition("@")
    try:
        return download(name, revision=revision or "main", patterns=patterns)
    except JprepError as error:
        what = f"there is no folder {text!r}, and as a name on the Hub: {error.what}"
        raise error.replace(what=what, fix=f"check the path; or for the Hub: {error.fix}") from error
