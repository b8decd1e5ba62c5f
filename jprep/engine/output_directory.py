"""The life of an output directory: claim, lock, resume, restart, verify, seal and clean.

A directory belongs to one kind of output. Files that jprep has not written and outputs of other kinds are not touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.consumed import consume_files
from jprep.engine.manifest import write_manifest
from jprep.engine.output_kinds import INDEX, KINDS, STATE, USAGE, OutputKind, find_outputs, is_unused
from jprep.engine.output_paths import describe_non_directory, refuse_remote
from jprep.engine.runner import (
    DRIVER,
    RECEIPTS,
    STAGE_JSON,
    Executor,
    ProgressReporter,
    read_made_from,
    refuse_mismatch,
    run_stage,
)
from jprep.engine.stage import Output, Receipt, Stage
from jprep.engine.usage import UsageRecorder
from jprep.errors import ConfigError, DamagedError, Interrupted
from jprep.io.atomic import (
    TEMPORARY_MARK,
    final_name,
    missing_folders,
    remove_contents,
    remove_empty_folders,
    remove_temporary_files,
    write_atomic,
)
from jprep.io.lock import hold_lock
from jprep.io.os_errors import write_error
from jprep.io.shared.host import Holder
from jprep.io.shared.lease import LEASE_SUFFIX
from jprep.io.shared.network_files import is_silly_rename
from jprep.io.shared.workers import WORKERS, WorkerWatch
from jprep.io.verified_files import find_damage
from jprep.plurals import and_more

_OTHER_PLACE = "choose another output directory, or move this one away"
_MAX_NAMES = 3  # files that a message names
_PLANS = {"inputs.json", STAGE_JSON, *(kind.made_from_file for kind in KINDS if kind.made_from_file)}
"""Files in `STATE` that only plan work; if there are no others, nothing has been done."""


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
        self._workers = WorkerWatch(self.state / WORKERS)

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
        if problem := describe_non_directory(self.path):
            raise self._refusal(f"expected a directory, found {problem}")
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
        """Check the directory, create it if necessary, and hold its lock for the duration of the block.

        Workers of a killed command that did not inherit its lock commit nothing any more. Temporary files of killed
        runs are deleted, unless a registered worker may be alive (see `live_workers`). When the block fails before
        anything is done, nothing is left: neither the directory nor its parents.

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
                self._end_drivers()
                if not self.live_workers():
                    self.remove_leftovers()
                with self._recorded():
                    yield
        finally:
            remove_empty_folders([self.state, *made])

    def _end_drivers(self) -> None:
        """Delete the files by which workers see that their command continues: this one has its lock now."""
        try:
            for path in self.state.glob(f"*/{DRIVER}{TEMPORARY_MARK}*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(error, self.state) from error

    def live_workers(self) -> list[Holder]:
        """Return the registered workers that are not known to be dead.

        Those of this host are judged at once; those of other hosts by whether they show changes, since the first call.

        Raises:
            MachineError: the directory cannot be read.
        """
        try:
            return self._workers.alive()
        except OSError as error:
            raise write_error(error, self.path) from error

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

    def end_workers(self) -> None:
        """End all registrations of workers: they commit nothing more. Then their temporary files can be deleted."""
        self._workers.end_all()

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
        path = self.state / self.kind.made_from_file
        if begun := read_made_from(path):
            refuse_mismatch(made_from, begun, self.path)
        else:
            write_atomic(path, encode_checksummed(made_from))

    def forget_made_from(self) -> None:
        """Let unfinished work be resumed with other settings."""
        write_atomic(self.state / self.kind.made_from_file, b"")

    def run_stage(self, stage: Stage, executor: Executor, progress: ProgressReporter) -> list[Receipt]:
        """Run a stage, or the tasks that an earlier run has left; see `jprep.engine.runner.run_stage`."""
        return run_stage(stage, self.path, self.state / stage.name, executor, progress)

    def consume(self, files: Sequence[Output], stage: Stage, receipts: Iterable[Receipt]) -> None:
        """Delete intermediate files of one directory that all tasks of a finished stage have read.

        Args:
            files: the files.
            stage: the stage.
            receipts: its receipts.
        """
        if files:
            names = (self.state / stage.name / RECEIPTS / f"{receipt.task}.json" for receipt in receipts)
            consume_files(self.path, files, names, files[0].path.rpartition("/")[0])

    def restart(self) -> None:
        """Delete the manifest, then everything that was written; files of the user are kept. Live workers are ended."""
        self.remove_manifest()
        self.end_workers()
        self.remove_leftovers()
        self.remove_files()
        for folder in self._folders():
            with contextlib.suppress(OSError):  # it contains files of the user
                folder.rmdir()
        for name in (USAGE, INDEX):
            (self.path / name).unlink(missing_ok=True)
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
            if damage := find_damage(self.path / path, sha256):
                where = str(self.path / path)
                raise DamagedError(f"this file {damage}", where=where, fix=fix, options=("--restart",))

    def seal(self, manifest: object, keep: Container[str] | None = None) -> None:
        """Write the manifest, which makes the output finished.

        Args:
            manifest: its content.
            keep: the files of the output, relative to the directory: those of earlier, interrupted runs are deleted
                first, and live workers are ended. None deletes nothing.
        """
        if keep is not None:
            self.end_workers()
            self.remove_leftovers()
            self.remove_files(keep)
        write_manifest(self.path / self.kind.manifest, manifest)

    def clean(self) -> None:
        """Delete unfinished work, but not lock, usage and index; the record of what it is made from goes last."""
        self.end_workers()
        if self.state.is_dir():
            kept = [Path(name).name for name in (self.kind.lock, USAGE, INDEX)]
            remove_contents(self.state, kept, self.kind.made_from_file)

    def _refusal(self, what: str, fix: str = "") -> ConfigError:
        options = () if fix else ("-o",)
        return ConfigError(what, where=str(self.path), fix=fix or _OTHER_PLACE, options=options)

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

    def _recorded(self) -> contextlib.AbstractContextManager[None]:
        """Record what the output takes, unless nothing of jprep's is left beside it in the end."""
        kept = Path(self.kind.lock).parent.name == STATE
        return UsageRecorder(self.path).output() if kept else contextlib.nullcontext()

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

    def has_only_plans(self) -> bool:
        """Return whether nothing was done here: there are no files but plans, and the lock."""
        lock = self.path / self.kind.lock
        return all(path == lock or self._is_plan(path) or _is_leased(path) for path in self._walk())

    def _walk(self) -> Iterator[Path]:
        """Yield all files, as directories are listed: there may be hundreds of thousands."""
        return (Path(parent, name) for parent, _, names in os.walk(self.path) for name in names)

    def _is_plan(self, path: Path) -> bool:
        return path.name in _PLANS and path.is_relative_to(self.state)

    def _remove_plans(self) -> None:
        if not self.has_only_plans():
            return
        for path in [*filter(self._is_plan, self._walk()), self.path / self.kind.lock]:
            path.unlink(missing_ok=True)
        remove_empty_folders(Path(parent) for parent, _, _ in os.walk(self.state, topdown=False))
        for folder in self._folders():
            folder.rmdir()


def _listing(names: list[str]) -> str:
    """Return the first names, and the number of others."""
    return ", ".join(names[:_MAX_NAMES]) + and_more(len(names), _MAX_NAMES)


def _files_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        files = [Path(entry.path) for entry in entries if not entry.is_dir(follow_symlinks=False)]
    return [path for path in files if not is_silly_rename(path.name)]


def _is_leased(path: Path) -> bool:
    """Return whether a file is the one of a lease, or a deleted one that is still open."""
    return path.parent.name.endswith(LEASE_SUFFIX) or is_silly_rename(path.name)


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)
