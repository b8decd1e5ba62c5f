"""The folder of an exported model: whole or not there, and never in the place of what is somebody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.atomic import damage, disk_error, remove_contents, remove_tree, sha256_of, sync
from jprep.io.lock import locked
from jprep.train.checkpoints import PARTIAL
from jprep.train.exporting.manifest import MANIFEST, read_export

_LOCK = ".lock"


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Give an empty folder to fill; at the end it stands in the place of the one that was exported before.

    Raises:
        ConfigError: something else lies there, or an export that somebody has changed.
        MachineError: the disk is full or not writable.
    """
    _refuse_others(folder)
    with replaced(folder) as partial:
        yield partial


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Give an empty folder to fill; at the end it stands in the place of this one, whatever lay there.

    Raises:
        MachineError: the disk is full or not writable.
    """
    folder = folder.absolute()
    partial, old = (folder.with_name(f"{PARTIAL}{folder.name}{end}") for end in ("", "-old"))
    with locked(partial / _LOCK):
        try:
            remove_contents(partial, keep=_LOCK)
            yield partial
            for path in (*partial.iterdir(), partial):
                sync(path)
            (partial / _LOCK).unlink()
            if folder.exists():
                remove_tree(old)
                folder.rename(old)
            partial.rename(folder)
            sync(folder.parent)
        except BaseException as error:
            remove_tree(partial)
            if isinstance(error, OSError):
                raise disk_error(error, folder) from error
            raise
    remove_tree(old)


def hashes(folder: Path, known: Container[str] = ()) -> dict[str, str]:
    """The SHA-256 of a folder's files by name, but for those that are known: weights are large."""
    names = sorted(path.name for path in folder.iterdir())
    return {name: sha256_of(folder / name) for name in names if name != _LOCK and name not in known}


def _refuse_others(folder: Path) -> None:
    """Raise ConfigError where something would be lost that an export does not give back."""
    if folder.exists() and not (folder / MANIFEST).exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "give another -o, or delete what is there"
        raise ConfigError("something else lies here, and no model exported by jprep", where=str(folder), fix=fix)
    if own := _of_others(folder):
        fix = "move it away, or give another -o"
        raise ConfigError(f"{own} is not as jprep exported it, and would be lost", where=str(folder), fix=fix)


def _of_others(folder: Path) -> str:
    """Return the name of a file that somebody has added to an export, or changed; "" for none.

    Raises:
        ConfigError: the manifest is damaged, so that nobody knows.
    """
    if not (folder / MANIFEST).exists():
        return ""
    files = read_export(folder).files
    for path in sorted(folder.iterdir()):
        own = path.name not in (MANIFEST, _LOCK)
        if own and (path.name not in files or damage(path, files[path.name])):
            return path.name
    return ""
