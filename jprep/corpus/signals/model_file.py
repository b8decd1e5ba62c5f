"""The file of a model that a recipe names."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError


def model_path(path: str, where: str) -> Path:
    """Return the path of a model, with `~` replaced.

    Args:
        path: as the recipe has it.
        where: what has the key `model`, for the message.

    Raises:
        ConfigError: there is no such file.
    """
    found = Path(path).expanduser()
    if not found.is_file():
        raise ConfigError(f"{path}: no such file", where=f"{where}, key `model`", fix="its path")
    return found
