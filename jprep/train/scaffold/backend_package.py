"""Write a new backend: a package that trains, exports and generates, for its author to replace piece by piece.

The directory `template` is that package under a placeholder name: plain files, in which only the name changes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.io.atomic import remove_tree
from jprep.io.os_errors import write_error
from jprep.plugins import plugins

TEMPLATE = Path(__file__).with_name("template")
PLACEHOLDER = "new-backend"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME = 40  # characters
_STEPS_HEADING = "## What is left to do"


class BackendPackage(NamedTuple):
    """A package that was written.

    Attributes:
        folder: its directory.
        files: its files, relative to the directory.
        remaining_steps: what its author has to do, in order.
    """

    folder: Path
    files: tuple[Path, ...]
    remaining_steps: tuple[str, ...]


def write_backend_package(name: str, folder: Path) -> BackendPackage:
    """Write the package of a new backend; it appears complete, or not at all.

    Args:
        name: the backend's name, e.g. `my-framework`.
        folder: where to; it must not exist, or be empty.

    Raises:
        ConfigError: the name cannot be a backend's or is taken, or the directory is not empty.
        MachineError: the disk is full or not writable.
    """
    check_backend_name(name)
    _check_empty(folder)
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".jprep-new-", dir=folder.absolute().parent))
        try:
            files = tuple(_write_files(name, partial))
            partial.chmod(0o755)
            partial.rename(folder)
        except BaseException:
            remove_tree(partial)
            raise
    except OSError as error:
        raise write_error(error, folder) from error
    return BackendPackage(folder, files, _remaining_steps(folder / "README.md"))


def check_backend_name(name: str) -> None:
    """Check that a name can be that of a new backend.

    Raises:
        ConfigError: it cannot, or a backend of this name is installed.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        fix = f"use lower-case ASCII letters, digits and single hyphens, up to {_MAX_NAME}, e.g. my-framework"
        raise ConfigError(f"{name!r} cannot be the name of a backend", where="NAME", fix=fix)
    if name in plugins().names("backend"):
        fix = "choose another name; `jprep backends list` prints the installed ones"
        raise ConfigError(f"a backend {name!r} is already installed", where="NAME", fix=fix)


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "choose another directory with -o, or remove this one"
        raise ConfigError("the output directory exists and is not empty", where=str(folder), fix=fix)


def _write_files(name: str, folder: Path) -> Iterator[Path]:
    for source in sorted(TEMPLATE.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        path = Path(_renamed(str(source.relative_to(TEMPLATE)), name))
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_renamed(source.read_text(encoding="utf-8"), name), encoding="utf-8")
        yield path


def _renamed(text: str, name: str) -> str:
    """Replace the placeholder in all its spellings: of a distribution, of a module, of a class."""
    for spelling in (_distribution_spelling, _module_spelling, _class_spelling):
        text = text.replace(spelling(PLACEHOLDER), spelling(name))
    return text


def _distribution_spelling(name: str) -> str:
    return name


def _module_spelling(name: str) -> str:
    return name.replace("-", "_")


def _class_spelling(name: str) -> str:
    camel = "".join(part.capitalize() for part in name.removesuffix("-backend").split("-"))
    return f"{camel}Backend"


def _remaining_steps(readme: Path) -> tuple[str, ...]:
    """Return the numbered list under the README's heading."""
    _, _, section = readme.read_text(encoding="utf-8").partition(_STEPS_HEADING)
    return tuple(re.findall(r"^\d+\. (.+)$", section, flags=re.MULTILINE))
