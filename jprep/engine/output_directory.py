"""The life of an output directory: claim, lock, resume, restart, verify, seal and clean.

A directory belongs to one kind of output. Files that jprep has not written and outputs of other kinds are not touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.manifest import write_manifest
from jprep.engine.output_kinds import STATE, OutputKind, find_outputs, is_unused
from jprep.engine.runner import Executor, ProgressReporter, read_claim, refuse_mismatch, run_stage
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError, Interrupted
from jprep.io.atomic import (
    final_name,
    missing_folders,
    remove_contents,
    remove_empty_folders,
    remove_temporary_files,
    write_atomic,
)
from jprep.io.inputs.paths import is_local
from jprep.io.lock import hold_lock
from jprep.io.os_errors import write_error
from jprep.io.verified_files import verify_file

_OTHER_PLACE = "choose another output directory, or move this one away"
_MAX_NAMES = 3  # files that a message names
_DEPTH = 3  # maximum depth of a file in an output: checkpoints/step-100/model.safetensors
_PLANS = ("inputs.json", "stage.json", "training.json", "exporting.json", "comparing.json", "judging.json")
"""Files in `STATE` that only plan work; if there are no others, nothing has been done."""

_LOST_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""The start of a URL from which `pathlib` has removed a slash."""


class OutputDirectory:
    """A directory that one kind of output is written to, from its first file to its manifest.

        out = OutputDirectory(Path("work/jawiki/corpus"), CORPUS, files=("documents/*.parquet",))
        with out.claim():
            if restart:
                out.restart()
            if out.finished:
                out.verify(made_from, manifest.made_from, manifest.files, fix)
            else:
                out.resume(made_from)
                out.run_stage(stage, executor, progress)
                out.seal(manifest)
            out.clean()

    Args:
        path: the directory; it need not exist.
        kind: the kind of output.
        files: patterns of the files that are written there besides the manifest: `name` or `folder/name`. Nothing else
            is ever deleted, and none of their directories may be a symbolic link.
        shared: whether the user may have files there before it is claimed.
    """

    def __init__(self, path: Path, kind: OutputKind, *, files: tuple[str, ...] = (), shared: bool = False) -> None:
        self.path, self.kind = path, kind
        self._files, self._shared = files, shared
        self.state = path / STATE

    @property
    def finished(self) -> bool:
        """Whether the manifest exists."""
        return (self.path / self.kind.manifest).exists()

    def check(self) -> None:
        """Refuse a directory that must not be written to; nothing is changed.

        Raises:
            ConfigError: it is a file or a URL, it holds another kind of output or files that jprep has not written, or
                a directory in it is a symbolic link. The message names what was found.
            MachineError: it cannot be read.
        """
        refuse_remote(self.path)
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
            raise self._refusal(f"this directory contains files that jprep has not written: {_listing(names)}")

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Check the directory, create it if necessary, and hold its lock for the time of the block.

        Temporary files of killed runs are deleted. When the block fails before anything is done, nothing is left:
        neither the directory nor its parents.

        Raises:
            ConfigError: see `check`.
            MachineError: another process uses the directory, or it cannot be written.
        """
        self.check()
        made = missing_folders(self.path)
        try:
            with self._locked(), self._left_clean():
                self.check()  # again: another process may have used it until now
                self._mark()
                self.remove_leftovers()
                yield
        finally:
            remove_empty_folders(made)

    def refuse_foreign_files(self) -> None:
        """Refuse files that jprep has not written in directories that programs read as a whole.

        Raises:
            ConfigError: there is one; files whose names begin with a dot are ignored.
        """
        for folder in self._folders():
            for path in sorted(folder.iterdir()):
                if not (path.name.startswith(".") or self._is_ours(final_name(path.name) or path.name, folder)):
                    name = path.relative_to(self.path).as_posix()
                    fix = "move it away, or choose another output directory"
                    raise self._refusal(f"jprep has not written {name}, which lies in this {self.kind.name}", fix=fix)

    def remove_leftovers(self) -> None:
        """Delete temporary files of killed runs that belong to this kind of output."""
        for folder in [self.path, *self._folders()]:
            for path in _files_in(folder):
                if self._is_ours(final_name(path.name), path.parent):
                    path.unlink(missing_ok=True)
        remove_temporary_files(self.state)

    def files(self) -> list[Path]:
        """Return the files that were written, without the manifest."""
        return [
            path
            for folder in [self.path, *self._folders()]
            for path in _files_in(folder)
            if self._is_ours(path.name, folder) and path != self.path / self.kind.manifest
        ]

    def remove_files(self, keep: Container[str] = ()) -> None:
        """Delete the files that were written, without the manifest.

        Args:
            keep: paths of files to keep, relative to the directory.
        """
        for path in self.files():
            if path.relative_to(self.path).as_posix() not in keep:
                path.unlink(missing_ok=True)

    def resume(self, made_from: dict[str, Any]) -> None:
        """Record what is made here, or verify that the unfinished work in the directory is the same.

        Args:
            made_from: everything that the output depends on, as plain data.

        Raises:
            MismatchError: it holds other unfinished work; the message names what differs.
        """
        path = self.state / self.kind.claim
        if begun := read_claim(path):
            refuse_mismatch(made_from, begun, self.path)
        else:
            write_atomic(path, encode_checksummed(made_from))

    def forget_claim(self) -> None:
        """Let unfinished work be resumed with other settings."""
        write_atomic(self.state / self.kind.claim, b"")

    def run_stage(self, stage: Stage, executor: Executor, progress: ProgressReporter) -> list[Receipt]:
        """Run a stage, or the tasks that an earlier run has left; see `jprep.engine.runner.run_stage`."""
        return run_stage(stage, self.path, self.state / stage.name, executor, progress)

    def restart(self) -> None:
        """Delete the manifest, then everything that was written; files of the user are kept."""
        self.remove_manifest()
        self.remove_files()
        for folder in self._folders():
            with contextlib.suppress(OSError):  # it contains files of the user
                folder.rmdir()
        self.clean()

    def remove_manifest(self) -> None:
        """Delete the manifest: the output is unfinished until it is sealed again."""
        (self.path / self.kind.manifest).unlink(missing_ok=True)

    def verify(
        self, made_from: dict[str, Any], found: dict[str, Any], files: Iterable[Output | tuple[str, str]], fix: str
    ) -> None:
        """Verify that the finished output is the one that would be made now, and that its files are undamaged.

        Args:
            made_from: what the output would be made from now.
            found: what its manifest says that it was made from.
            files: its files: outputs, or pairs of a path relative to the directory and a SHA-256.
            fix: the fix for a damaged file.

        Raises:
            MismatchError: it was made from something else; the message names what differs.
            DamagedError: a file is missing or damaged.
        """
        refuse_mismatch(made_from, found, self.path)
        for file in files:
            path, sha256 = (file.path, file.sha256) if isinstance(file, Output) else file
            verify_file(self.path / path, sha256, fix)

    def seal(self, manifest: object, keep: Container[str] | None = None) -> None:
        """Write the manifest, which makes the output finished.

        Args:
            manifest: its content.
            keep: the files of the output, relative to the directory: those of earlier, interrupted runs are deleted
                first. None deletes nothing.
        """
        if keep is not None:
            self.remove_leftovers()
            self.remove_files(keep)
        write_manifest(self.path / self.kind.manifest, manifest)

    def clean(self) -> None:
        """Delete unfinished work, except the lock; the claim, which says whose it is, goes last."""
        if self.state.is_dir():
            remove_contents(self.state, Path(self.kind.lock).name, self.kind.claim)

    def _refusal(self, what: str, fix: str = _OTHER_PLACE) -> ConfigError:
        return ConfigError(what, where=str(self.path), fix=fix)

    def _folders(self) -> list[Path]:
        """Return the existing directories that files are written to."""
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
                fix = "replace the link with its target, or choose another output directory"
                raise self._refusal(f"{name} is a symbolic link to {path.readlink()}", fix=fix)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return hold_lock(self.path / self.kind.lock, where=self.path, keep=not self._shared)

    def _mark(self) -> None:
        """Write the kind's name into the lock file, if no other file shows the kind."""
        lock = self.path / self.kind.lock
        if self.kind.marked and not find_outputs(self.path):
            try:
                lock.write_text(f"{self.kind.name}\n", encoding="utf-8")
            except OSError as error:
                raise write_error(error, lock) from error

    @contextlib.contextmanager
    def _left_clean(self) -> Iterator[None]:
        """When the block fails and nothing was done, delete the plans and the lock."""
        try:
            yield
        except Interrupted:
            raise
        except Exception:
            with contextlib.suppress(OSError):
                self._remove_plans()
            raise

    def _remove_plans(self) -> None:
        files = [Path(parent, name) for parent, _, names in os.walk(self.path) for name in names]
        lock = self.path / self.kind.lock
        plans = [path for path in files if path.name in _PLANS and path.is_relative_to(self.state)]
        if set(files) - {lock, *plans}:
            return
        for path in [*plans, lock]:
            path.unlink(missing_ok=True)
        for parent, _, _ in os.walk(self.state, topdown=False):
            Path(parent).rmdir()
        for folder in self._folders():
            folder.rmdir()


def check_output_file(path: Path) -> None:
    """Refuse a path that no file must be written to; nothing is changed.

    Raises:
        ConfigError: it is a directory, a device, a URL or a broken symbolic link; or a file of a corpus, a tokenizer, a
            dataset, a run or an export.
        MachineError: it cannot be read.
    """
    refuse_remote(path)
    try:
        problem = _no_file(path)
    except OSError as error:
        raise write_error(error, path) from error
    if problem:
        raise ConfigError(f"expected a file, found {problem}", where=str(path), fix="choose another output file")


def _listing(names: list[str]) -> str:
    """Return the first names, and the number of others."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def refuse_url(text: str) -> None:
    """Refuse a URL as an output path.

    Raises:
        ConfigError: it is one.
    """
    if not is_local(text) and text != "-":
        raise _remote(text)


def refuse_remote(path: Path) -> None:
    """Raise ConfigError if a path was a URL before it became a path."""
    begin = _LOST_SLASH.match(str(path))
    if begin and not Path(path.parts[0]).exists():
        raise _remote(str(path))


def _remote(text: str) -> ConfigError:
    what = "this command cannot write to a URL: its work in progress needs a file system with locks and renames"
    fix = "give a local path; `train.checkpoint.mirror` copies a run to a URL, and -o of other commands their outputs"
    return ConfigError(what, where=text, fix=fix)


def _no_directory(path: Path) -> str:
    """Return what exists at a path that cannot become a directory, or ""."""
    try:  # one look: another process may create it at this moment
        return "" if stat.S_ISDIR(path.stat().st_mode) else "a file"
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return f"a symbolic link to {path.readlink()}, which does not exist" if path.is_symlink() else ""


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
