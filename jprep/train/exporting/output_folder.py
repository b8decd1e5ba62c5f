"""Write the directory of an exported model atomically, without ever replacing something else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import MODEL_EXPORT
from jprep.engine.output_paths import refuse_remote
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, fsync_path, missing_folders, remove_contents, remove_empty_folders
from jprep.io.lock import hold_lock
from jprep.io.os_errors import write_error
from jprep.io.verified_files import find_damage
from jprep.train.exporting.manifest import MANIFEST, read_export
from jprep.train.run.checkpoints import PARTIAL
from jprep.train.run.directory import JOB

_LOCK, _NEW, _OLD = ".lock", "new", "old"


@contextlib.contextmanager
def atomic_export(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write into; after the block it replaces an earlier export.

    Raises:
        ConfigError: the directory holds something else, or an export with changed or added files.
        MachineError: another export is being written there, or the disk is full or not writable.
    """
    with atomic_folder(folder, _refuse_others) as new:
        yield new


@contextlib.contextmanager
def atomic_folder(folder: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """Yield an empty folder to write into; after the block it replaces a directory.

    It is written inside a hidden sibling folder that also holds the lock, because a locked folder is not renamed.

    Args:
        folder: the directory, which need not exist; the target of a symbolic link is replaced instead.
        check: raises ConfigError for a directory that must not be replaced.

    Raises:
        ConfigError: from `check`.
        MachineError: another export is being written there, or the disk is full or not writable.
    """
    refuse_remote(folder)
    target = folder.resolve()
    sibling = target.with_name(f"{PARTIAL}{target.name}")
    _refuse_unknown(sibling)
    with _removed(sibling), hold_lock(sibling / _LOCK, where=folder, keep=False):
        try:
            _tidy(sibling, target)
            check(folder)
            new, old = sibling / _NEW, sibling / _OLD
            new.mkdir()
            yield new
            for path in (*new.rglob("*"), new):
                fsync_path(path)
            if target.exists():
                target.rename(old)
            new.rename(target)
            fsync_path(target.parent)
        except OSError as error:
            raise write_error(error, folder) from error
        finally:
            _tidy(sibling, target)


def refuse_other_files(folder: Path, own: Container[str]) -> None:
    """Check that an output directory holds no other files than a conversion writes, which may be replaced.

    Args:
        folder: the output directory, which need not exist.
        own: names of the files that the conversion writes.

    Raises:
        ConfigError: it holds other files, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(path.name not in own for path in folder.iterdir())):
        what, fix = "the output directory holds other files", "choose another directory, or delete these files"
        raise ConfigError(what, where=str(folder), fix=fix)


@contextlib.contextmanager
def _removed(folder: Path) -> Iterator[None]:
    """Delete a folder after the block, and those of its parents that did not exist before, if they are empty."""
    made = [folder, *missing_folders(folder.parent)]
    try:
        yield
    finally:
        remove_empty_folders(made)


def _refuse_unknown(sibling: Path) -> None:
    """Raise ConfigError if the sibling folder exists and was not left by an earlier export."""
    if sibling.is_symlink() or (sibling.exists() and not (sibling.is_dir() and _is_leftover(sibling))):
        what = "jprep needs this path, but it holds files that jprep did not write"
        raise ConfigError(what, where=str(sibling), fix="move it away, or use another -o")


def _is_leftover(sibling: Path) -> bool:
    """Return whether a folder is empty or was left by an export: it has the lock or a manifest, or is in a run."""
    held = {path.name for path in sibling.iterdir()}
    return not held or bool(held & {_LOCK, MANIFEST}) or (sibling.parent / JOB).exists()


def _tidy(sibling: Path, target: Path) -> None:
    """Restore the old export if a killed process moved it away, then delete everything except the lock."""
    if (sibling / _OLD).exists() and not target.exists():
        (sibling / _OLD).rename(target)
    remove_contents(sibling, keep=(_LOCK,))


def file_hashes(folder: Path, known: Container[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of a folder's files by name, without the known ones: hashing weights takes long."""
    names = sorted(path.name for path in folder.iterdir())
    return {name: file_sha256(folder / name) for name in names if name not in known}


def _refuse_others(folder: Path) -> None:
    """Raise ConfigError if files would be lost that another export does not restore."""
    OutputDirectory(folder, MODEL_EXPORT).check()
    if own := _changed_file(folder):
        fix = "move it away, or use another -o"
        raise ConfigError(f"{own} was changed after the export and would be lost", where=str(folder), fix=fix)


def _changed_file(folder: Path) -> str:
    """Return the name of a file that was added to an export or changed; "" if there is none.

    Raises:
        ConfigError: the manifest is damaged, so that it is unknown.
        MachineError: a file cannot be read.
    """
    if not (folder / MANIFEST).exists():
        return ""
    files = read_export(folder).files
    for path in sorted(folder.iterdir()):
        if path.name != MANIFEST and (path.name not in files or find_damage(path, files[path.name])):
            return path.name
    return ""
