"""The folder of an exported model: whole or not there, and never in the place of what is somebody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import MODEL_EXPORT
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, fsync_path, missing_folders, remove_contents, remove_empty_folders, write_error
from jprep.io.lock import hold_lock
from jprep.io.verified_files import find_damage
from jprep.train.exporting.manifest import MANIFEST, read_export
from jprep.train.run.checkpoints import PARTIAL
from jprep.train.run.directory import JOB

_LOCK, _NEW, _OLD = ".lock", "new", "old"


@contextlib.contextmanager
def atomic_export(folder: Path) -> Iterator[Path]:
    """Give an empty folder to fill; at the end it stands in the place of the one that was exported before.

    Raises:
        ConfigError: something else lies there, or an export that somebody has changed.
        MachineError: another export goes there at this time, the disk is full or not writable.
    """
    with atomic_folder(folder, _refuse_others) as new:
        yield new


@contextlib.contextmanager
def atomic_folder(folder: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """Give an empty folder to fill; at the end it stands in the place of this one.

    It is filled in a folder beside this one, which has the lock: what is locked is not renamed.

    Args:
        folder: a directory, which need not be there; where it is a symbolic link, what that leads to is replaced.
        check: raises ConfigError for a directory that may not be replaced.

    Raises:
        ConfigError: from `check`.
        MachineError: another export goes there at this time, the disk is full or not writable.
    """
    check(folder)
    target = folder.resolve()
    aside = target.with_name(f"{PARTIAL}{target.name}")
    _refuse_unknown(aside)
    with _removed(aside), hold_lock(aside / _LOCK, where=folder, keep=False):
        try:
            _tidy(aside, target)
            check(folder)
            new, old = aside / _NEW, aside / _OLD
            new.mkdir()
            yield new
            for path in (*new.iterdir(), new):
                fsync_path(path)
            if target.exists():
                target.rename(old)
            new.rename(target)
            fsync_path(target.parent)
        except OSError as error:
            raise write_error(error, folder) from error
        finally:
            _tidy(aside, target)


@contextlib.contextmanager
def _removed(folder: Path) -> Iterator[None]:
    """Delete a folder after the block, and its parents that were not there before, as far as they are empty."""
    made = [folder, *missing_folders(folder.parent)]
    try:
        yield
    finally:
        remove_empty_folders(made)


def _refuse_unknown(aside: Path) -> None:
    """Refuse what lies where the new folder is filled, if no earlier export has left it."""
    if aside.is_symlink() or (aside.exists() and not (aside.is_dir() and _is_leftover(aside))):
        what = "jprep needs this path, and it holds files that jprep did not write"
        raise ConfigError(what, where=str(aside), fix="move it away, or give another -o")


def _is_leftover(aside: Path) -> bool:
    """Whether a folder is empty, or was left by an export: there is the lock, or a run around it, or a whole export."""
    held = {path.name for path in aside.iterdir()}
    return not held or bool(held & {_LOCK, MANIFEST}) or (aside.parent / JOB).exists()


def _tidy(aside: Path, target: Path) -> None:
    """Bring the old export back if a killed run has moved it away, then delete all but the lock."""
    if (aside / _OLD).exists() and not target.exists():
        (aside / _OLD).rename(target)
    remove_contents(aside, keep=_LOCK)


def file_hashes(folder: Path, known: Container[str] = ()) -> dict[str, str]:
    """The SHA-256 of a folder's files by name, but for those that are known: weights are large."""
    names = sorted(path.name for path in folder.iterdir())
    return {name: file_sha256(folder / name) for name in names if name not in known}


def _refuse_others(folder: Path) -> None:
    """Raise ConfigError where something would be lost that an export does not give back."""
    OutputDirectory(folder, MODEL_EXPORT).check()
    if own := _of_others(folder):
        fix = "move it away, or give another -o"
        raise ConfigError(f"{own} is not as jprep exported it, and would be lost", where=str(folder), fix=fix)


def _of_others(folder: Path) -> str:
    """Return the name of a file that somebody has added to an export, or changed; "" for none.

    Raises:
        ConfigError: the manifest is damaged, so that nobody knows.
        MachineError: a file cannot be read.
    """
    if not (folder / MANIFEST).exists():
        return ""
    files = read_export(folder).files
    for path in sorted(folder.iterdir()):
        if path.name != MANIFEST and (path.name not in files or find_damage(path, files[path.name])):
            return path.name
    return ""
