"""Output directories: claimed for one kind of output, locked, and tidied without touching anybody else's files."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Container, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from jprep.engine.output_kinds import STATE, OutputKind, find_outputs, is_unused
from jprep.errors import ConfigError, Interrupted
from jprep.io.atomic import (
    final_name,
    missing_folders,
    remove_contents,
    remove_empty_folders,
    remove_temporary_files,
    write_error,
)
from jprep.io.inputs.paths import is_local
from jprep.io.lock import hold_lock

_OTHER_PLACE = "choose another output directory, or move this one away"
_NAMED = 3  # files that a message names
_DEPTH = 3  # how deep in an output its files lie, at most: checkpoints/step-100/model.safetensors
_PLANS = ("inputs.json", "stage.json", "training.json")
"""Files in `STATE` that say what is to be done; without others beside them nothing has been done."""

_LOST_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a URL begins once `pathlib` has taken one of its slashes."""


class OutputDirectory:
    """A directory that one kind of output is written to.

        out = OutputDirectory(Path("work/jawiki/corpus"), CORPUS, files=("documents/*.parquet",))
        with out.claim():
            ...

    Args:
        path: where it is, or will be.
        kind: what is written there.
        files: patterns of what is written there beside the manifest: `name` or `folder/name`. Nothing else is ever
            deleted, and no folder of theirs may be a symbolic link.
        shared: whether files of the user's may lie there before it is claimed.
    """

    def __init__(self, path: Path, kind: OutputKind, *, files: tuple[str, ...] = (), shared: bool = False) -> None:
        self.path, self.kind = path, kind
        self._files, self._shared = files, shared
        self.state = path / STATE

    @property
    def finished(self) -> bool:
        """Whether the manifest is there."""
        return (self.path / self.kind.manifest).exists()

    def check(self) -> None:
        """Refuse a directory that may not be written to; nothing is changed.

        Raises:
            ConfigError: it is a file or a URL, it holds another kind of output or files that jprep has not written, or
                a folder in it is a symbolic link. The message names what was found.
            MachineError: it cannot be read.
        """
        _refuse_remote(self.path)
        try:
            self._check()
        except OSError as error:
            raise write_error(error, self.path) from error

    def _check(self) -> None:
        if problem := _no_directory(self.path):
            raise self._refusal(f"expected a directory, found {problem}", fix="choose another output directory")
        if not self.path.exists():
            return
        found = [each for each in find_outputs(self.path) if not (self._shared and each.kind.container)]
        if others := [each for each in found if each.kind is not self.kind]:
            raise self._refusal(f"expected a new directory or a {self.kind.name}, found {others[0]}")
        self._refuse_links()
        if not (found or self._shared or is_unused(self.path)):
            names = sorted(each.name for each in self.path.iterdir())
            raise self._refusal(f"this directory holds files that jprep has not written: {_listing(names)}")

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Check the directory, make it where it is missing, and hold its lock for the time of the block.

        When the block fails before anything is done, nothing stays behind: neither the directory nor its parents.

        Raises:
            ConfigError: see `check`.
            MachineError: another process works there, or it cannot be written.
        """
        self.check()
        made = missing_folders(self.path)
        try:
            with self._locked(), self._left_clean():
                self.check()  # again: it may have been another process's until now
                self._mark()
                yield
        finally:
            remove_empty_folders(made)

    def refuse_foreign_files(self) -> None:
        """Refuse files that jprep has not written in the folders of outputs that programs read by whole folders.

        Raises:
            ConfigError: there is one; files whose names begin with a dot are left alone.
        """
        for folder in self._folders():
            for path in sorted(folder.iterdir()):
                if not (path.name.startswith(".") or self._is_ours(final_name(path.name) or path.name, folder)):
                    name = path.relative_to(self.path).as_posix()
                    fix = "move it away, or choose another output directory"
                    raise self._refusal(f"jprep has not written {name}, which lies in this {self.kind.name}", fix=fix)

    def remove_leftovers(self) -> None:
        """Delete the temporary files of killed runs, as far as they are of this kind of output."""
        for folder in [self.path, *self._folders()]:
            for path in _files_in(folder):
                if self._is_ours(final_name(path.name), path.parent):
                    path.unlink(missing_ok=True)
        remove_temporary_files(self.state)

    def files(self) -> list[Path]:
        """Return what was written, but for the manifest."""
        return [
            path
            for folder in [self.path, *self._folders()]
            for path in _files_in(folder)
            if self._is_ours(path.name, folder) and path != self.path / self.kind.manifest
        ]

    def remove_files(self, keep: Container[str] = ()) -> None:
        """Delete what was written, but for the manifest.

        Args:
            keep: paths of files that stay, relative to the directory.
        """
        for path in self.files():
            if path.relative_to(self.path).as_posix() not in keep:
                path.unlink(missing_ok=True)

    def remove_state(self, last: str = "") -> None:
        """Delete unfinished work, but for the lock.

        Args:
            last: the name of the file that goes last.
        """
        if self.state.is_dir():
            remove_contents(self.state, Path(self.kind.lock).name, last)

    def restart(self, last: str = "") -> None:
        """Delete the manifest, then all that was written; files of the user's stay."""
        (self.path / self.kind.manifest).unlink(missing_ok=True)
        self.remove_files()
        for folder in self._folders():
            with contextlib.suppress(OSError):  # files of the user's are in it
                folder.rmdir()
        self.remove_state(last)

    def _refusal(self, what: str, fix: str = _OTHER_PLACE) -> ConfigError:
        return ConfigError(what, where=str(self.path), fix=fix)

    def _folders(self) -> list[Path]:
        """The folders that files are written to, as far as they are there."""
        names = {pattern.split("/")[0] for pattern in self._files if "/" in pattern}
        return [self.path / name for name in sorted(names) if (self.path / name).is_dir()]

    def _is_ours(self, name: str, folder: Path) -> bool:
        path = (folder / name).relative_to(self.path).as_posix() if name else ""
        return bool(path) and (path == self.kind.manifest or any(_matches(path, each) for each in self._files))

    def _refuse_links(self) -> None:
        lock = [self.path / self.kind.lock] if self.kind.lock else []
        for path in [self.state, *self._folders(), *lock]:
            if path.is_symlink():
                name = path.relative_to(self.path).as_posix()
                fix = "replace the link by what it leads to, or choose another output directory"
                raise self._refusal(f"{name} is a symbolic link to {path.readlink()}", fix=fix)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return hold_lock(self.path / self.kind.lock, where=self.path, keep=not self._shared)

    def _mark(self) -> None:
        """Write the kind's name into the lock file, where nothing else tells the kind."""
        lock = self.path / self.kind.lock
        if self.kind.marked and not find_outputs(self.path):
            try:
                lock.write_text(f"{self.kind.name}\n", encoding="utf-8")
            except OSError as error:
                raise write_error(error, lock) from error

    @contextlib.contextmanager
    def _left_clean(self) -> Iterator[None]:
        """When the block fails and nothing was done, delete what says what was to be done, and the lock."""
        try:
            yield
        except Interrupted:
            raise
        except Exception:
            with contextlib.suppress(OSError):
                self._remove_plans()
            raise

    def _remove_plans(self) -> None:
        files = [Path(place, name) for place, _, names in os.walk(self.path) for name in names]
        lock = self.path / self.kind.lock
        plans = [path for path in files if path.name in _PLANS and path.is_relative_to(self.state)]
        if set(files) - {lock, *plans}:
            return
        for path in [*plans, lock]:
            path.unlink(missing_ok=True)
        for place, _, _ in os.walk(self.state, topdown=False):
            Path(place).rmdir()
        for folder in self._folders():
            folder.rmdir()


def check_output_file(path: Path) -> None:
    """Refuse a path that no file may be written to; nothing is changed.

    Raises:
        ConfigError: it is a directory, a device, a URL or a symbolic link that leads nowhere; or a file of a corpus, a
            tokenizer, a dataset, a run or an export.
        MachineError: it cannot be looked at.
    """
    _refuse_remote(path)
    try:
        problem = _no_file(path)
    except OSError as error:
        raise write_error(error, path) from error
    if problem:
        raise ConfigError(f"expected a file, found {problem}", where=str(path), fix="choose another output file")


def _listing(names: list[str]) -> str:
    """Return the first few of some names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def refuse_url(text: str) -> None:
    """Refuse a URL as a place to write to.

    Raises:
        ConfigError: it is one.
    """
    if not is_local(text) and text != "-":
        raise _remote(text)


def _refuse_remote(path: Path) -> None:
    begin = _LOST_SLASH.match(str(path))
    if begin and not Path(path.parts[0]).exists():
        raise _remote(str(path))


def _remote(text: str) -> ConfigError:
    fix = "give a local path, and copy the finished output there"
    return ConfigError("jprep cannot write to a URL", where=text, fix=fix)


def _no_directory(path: Path) -> str:
    """Return what lies at a path that cannot be a directory, or ""."""
    if path.is_dir() or not (path.exists() or path.is_symlink()):
        return ""
    return "a file" if path.exists() else f"a symbolic link to {path.readlink()}, which does not exist"


def _no_file(path: Path) -> str:
    if path.is_dir():
        return f"a directory ({', '.join(map(str, find_outputs(path))) or 'of other files'})"
    if path.is_symlink() and not path.exists():
        return f"a symbolic link to {path.readlink()}, which does not exist"
    if not path.exists():
        return ""
    if not path.is_file():
        return "a device or a pipe"
    inside = ((folder, found) for folder in path.resolve().parents[:_DEPTH] for found in find_outputs(folder))
    owner = next((each for each in inside if not each[1].kind.container), None)
    return f"a file of {owner[1]} in {owner[0]}" if owner else ""


def _files_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if not entry.is_dir(follow_symlinks=False)]


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)
