"""References to hooks in recipes: `module:name`, where the module is a file beside the recipe or an installed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jprep.errors import ConfigError
from jprep.train.hooks.config import HooksConfig

SUFFIX = ".py"

_EXAMPLE = 'write e.g. loss = "losses:focal_loss", for the function focal_loss in losses.py beside the recipe'


class HookReference(NamedTuple):
    """A hook that a recipe names.

    Attributes:
        module: the path of a `.py` file, or the dotted name of an installed module.
        name: the function or class in it.
    """

    module: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether the module is a file."""
        return self.module.endswith(SUFFIX)

    def __str__(self) -> str:
        """Return it as in a recipe."""
        return f"{self.module}:{self.name}"


def parse_reference(text: str, key: str) -> HookReference:
    """Parse `module:name`.

    Args:
        text: the value of a key.
        key: the key, for errors.

    Raises:
        ConfigError: it has another form.
    """
    module, colon, name = text.rpartition(":")
    stem = Path(module).stem if module.endswith(SUFFIX) else module
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in stem.split(".")):
        raise ConfigError(f"{text!r} does not name a hook", where=key, fix=_EXAMPLE)
    return HookReference(module, name)


def map_references(hooks: HooksConfig, change: Callable[[str, str], str]) -> HooksConfig:
    """Return the section with each reference replaced.

    Args:
        hooks: the section.
        change: maps a reference and its key to the new reference.
    """
    loss, head = (
        text and change(text, f"train.hooks.{key}") for key, text in (("loss", hooks.loss), ("head", hooks.head))
    )
    metrics = [change(text, f"train.hooks.metrics[{number}]") for number, text in enumerate(hooks.metrics)]
    return HooksConfig(loss=loss, head=head, metrics=metrics)


def locate_files(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a raw recipe in which hooks whose module is a file in a folder name that file by its path.

    Args:
        raw: the recipe as plain data; other values of `train.hooks` than references stay as they are.
        folder: the folder of the recipe.
    """
    train = raw.get("train")
    hooks = train.get("hooks") if isinstance(train, dict) else None
    if not isinstance(train, dict) or not isinstance(hooks, dict):
        return raw
    return raw | {"train": train | {"hooks": {key: _located(value, folder) for key, value in hooks.items()}}}


def _located(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_located(each, folder) for each in value]
    if not isinstance(value, str) or ":" not in value:
        return value
    module, _, name = value.rpartition(":")
    path = folder / (module if module.endswith(SUFFIX) else module + SUFFIX)
    return f"{path.as_posix()}:{name}" if path.is_file() else value
