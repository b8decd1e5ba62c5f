"""Write, read, prune and set aside checkpoints. Each is complete once it has `COMMIT.json`, see `docs/runs.md`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import ConfigError, JprepError, MachineError, MismatchError
from jprep.io.atomic import file_sha256, fsync_path, remove_tree
from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.retry import retry_transient
from jprep.io.shared.network_files import exists_now, replace_file, retry_stale
from jprep.io.shared.ownership import check_ownership
from jprep.train.job.best import LOWEST_LOSS, BestFigure
from jprep.train.run.commit import (
    COMMIT,
    CheckpointFile,
    Commit,
    await_files,
    best_first,
    checkpoint_name,
    files_of,
    find_checkpoint_damage,
    read_commit,
    step_of,
)

PARTIAL, DAMAGED, ASIDE = "partial-", "damaged-", "aside-"
"""Prefixes of folders that are not checkpoints: being written or deleted, damaged, set aside by `--resume`.

If a step has several damaged or set-aside folders, the second is `damaged-2-step-…`, the third `damaged-3-step-…`.
"""

_NAME = r"step-\d{8,}"
_NOTE = ".rank-{:05d}.json"
_SPARE = 16 << 20  # bytes; with less free space, a failed write is taken for a full disk, whatever the exception says


class Checkpoint(NamedTuple):
    """A committed checkpoint.

    Attributes:
        folder: its folder.
        commit: the content of its `COMMIT.json`.
    """

    folder: Path
    commit: Commit

    @property
    def step(self) -> int:
        """The number of updates done."""
        return self.commit.step


class Rank(NamedTuple):
    """One of the processes that write a checkpoint together.

    Attributes:
        number: its rank.
        world: the number of ranks.
        timeout: seconds to wait for the other ranks.
    """

    number: int = 0
    world: int = 1
    timeout: float = 1800.0


SINGLE_RANK = Rank()


class BestCheckpoints:
    """The best checkpoints of a run, which `keep_best` keeps.

    Args:
        figure: what they are compared by.
        keys: the sort keys of the existing checkpoints.
        number: how many checkpoints are kept.
    """

    def __init__(self, figure: BestFigure, keys: Iterable[float], number: int) -> None:
        self._figure, self._number = figure, number
        self._keys = sorted(keys)[:number]

    def beaten_by(self, loss: float, figures: Mapping[str, float]) -> bool:
        """Return whether a checkpoint with these figures would be kept. Of equal ones the first one is kept."""
        key = self._figure.sort_key(loss, figures)
        return key is not None and (len(self._keys) < self._number or bool(self._keys and key < self._keys[-1]))

    def add(self, loss: float, figures: Mapping[str, float]) -> None:
        """Add the figures of a checkpoint that is going to be saved. Others have no effect.

        Raises:
            ConfigError: the figure was not measured.
        """
        self._figure.check_measured(figures)
        key = self._figure.sort_key(loss, figures)
        self._keys = sorted([*self._keys, *([] if key is None else [key])])[: self._number]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: the folder of the checkpoints.
        job: the job's fingerprint.
        keep_last: how many of the newest checkpoints are kept; at least one.
        keep_best: how many others are kept, the best ones.
        earlier: the fingerprints of the jobs that this one continues.
        best: what the best ones are compared by.
    """

    def __init__(
        self,
        folder: Path,
        job: str,
        keep_last: int = 2,
        keep_best: int = 0,
        earlier: Collection[str] = (),
        best: BestFigure = LOWEST_LOSS,
    ) -> None:
        self._folder, self._job, self._earlier, self._best = folder, job, earlier, best
        self._keep_last, self._keep_best = max(1, keep_last), keep_best

    def committed(self) -> list[Checkpoint]:
        """Return the checkpoints with a valid `COMMIT.json`, by step. Their other files are not read.

        Raises:
            MachineError: a `COMMIT.json` or the directory cannot be read.
        """
        found = ((folder, read_commit(folder)) for folder in self._folders())
        return [Checkpoint(folder, commit) for folder, commit in found if isinstance(commit, Commit)]

    def damaged(self) -> list[tuple[Path, str]]:
        """Return the folders whose `COMMIT.json` is missing or damaged, by step, each with the problem.

        Raises:
            MachineError: a `COMMIT.json` or the directory cannot be read.
        """
        found = ((folder, read_commit(folder)) for folder in self._folders())
        return [(folder, commit) for folder, commit in found if isinstance(commit, str) and folder.exists()]

    def latest(self, on_damaged: Callable[[Path, str], None]) -> Checkpoint | None:
        """Return the newest valid checkpoint, or None. Set damaged ones aside. Requires the run's lock.

        All hashes are checked. An unreadable checkpoint does not count as damaged: it stays, and the error is raised.

        Args:
            on_damaged: called with the new path of each damaged checkpoint, and the problem.

        Raises:
            MismatchError: the checkpoint belongs to another job.
            MachineError: a checkpoint cannot be read or renamed.
        """
        for folder in reversed(self._folders()):
            commit = read_commit(await_files(folder))
            problem = commit if isinstance(commit, str) else find_checkpoint_damage(folder, commit)
            if not problem and isinstance(commit, Commit):
                return self._check_owner(Checkpoint(folder, commit))
            on_damaged(self._set_aside(folder, DAMAGED), problem)
        return None

    def owns(self, checkpoint: Checkpoint) -> bool:
        """Return whether a checkpoint belongs to this job, or to one that it continues."""
        return checkpoint.commit.job in (self._job, *self._earlier)

    def best(self) -> BestCheckpoints:
        """Return the checkpoints that `keep_best` compares."""
        keys = (checkpoint.commit.sort_key(self._best) for checkpoint in self.committed())
        return BestCheckpoints(self._best, (key for key in keys if key is not None), self._keep_best)

    def clean(self) -> None:
        """Delete the incomplete folders that killed runs left. Requires the run's lock."""
        for folder in self._listed():
            if folder.name.startswith(PARTIAL):
                remove_tree(folder)

    def rewind(self, step: int) -> None:
        """Set aside all checkpoints after a step; 0 sets aside all. Requires the run's lock.

        They are deleted once the run has saved the same step or a later one.

        Raises:
            ConfigError: there is no checkpoint of that step.
        """
        steps = [checkpoint.step for checkpoint in self.committed()]
        if step and step not in steps:
            fix = f"checkpoints: {', '.join(map(str, steps))}" if steps else "this run has no checkpoint"
            raise ConfigError(f"there is no checkpoint of step {step}", where=str(self._folder), fix=fix)
        for folder in self._folders():
            if step_of(folder) > step:
                self._set_aside(folder, ASIDE)

    @contextlib.contextmanager
    def saving(
        self, step: int, loss: float | None = None, rank: Rank = SINGLE_RANK, figures: Mapping[str, float] = {}
    ) -> Iterator[Path]:
        """Yield a folder to write into; after the block, commit it as a step's checkpoint and prune old ones.

        Every rank writes files of different names into the same folder. Rank 0 commits once all ranks have finished.
        After an exception there is no new checkpoint, and the earlier ones are unchanged.

        Args:
            step: the number of updates done.
            loss: the validation loss of this step, if measured.
            rank: this process among those that write.
            figures: other figures of the validation of this step.

        Raises:
            MachineError: the disk is full or not writable, or another rank does not finish in time.
            JprepError: nothing was written, or another rank failed.
        """
        partial = self._folder / f"{PARTIAL}{checkpoint_name(step)}"
        try:
            partial.mkdir(parents=True, exist_ok=True)
            yield partial
            failpoint("run.filled")
            if rank.number:
                _write_note(partial, rank.number)
            else:
                from jprep.train.run.checkpoint_files import join_pieces  # which imports numpy

                if rank.world > 1:
                    _await_ranks(partial, rank)
                join_pieces(partial, rank.world)
                self._commit(partial, step, loss, self._best.kept(figures))
                self._prune()
        except BaseException as error:
            disk_error = _as_disk_error(error, partial)
            if rank.number and _was_deleted(partial, error):
                raise JprepError("rank 0 has given up this checkpoint", where=str(partial)) from error
            if rank.number:
                _write_note(partial, rank.number, disk_error or error)
            else:
                remove_tree(partial)
            if disk_error:
                raise disk_error from error
            raise

    def _commit(self, partial: Path, step: int, loss: float | None, figures: dict[str, float]) -> None:
        final = self._folder / checkpoint_name(step)
        paths = files_of(partial)
        if not paths:
            raise JprepError("the worker wrote an empty checkpoint", where=str(final), fix="report it")
        for path in paths.values():
            fsync_path(path)
        files = {name: CheckpointFile(file_sha256(path), path.stat().st_size) for name, path in paths.items()}
        failpoint("run.hashed")
        commit = Commit(step=step, job=self._job, loss=loss, figures=figures or msgspec.UNSET, files=files).sealed()
        (partial / COMMIT).write_bytes(msgspec.json.format(msgspec.json.encode(commit), indent=1))
        for path in [partial / COMMIT, *(path for path in partial.rglob("*") if path.is_dir()), partial]:
            fsync_path(path)
        failpoint("run.committed")
        check_ownership()
        if isinstance(read_commit(final), Commit):  # saved before a restart: the same step has the same weights
            remove_tree(partial)
            return
        if final.exists():
            self._set_aside(final, DAMAGED)
        replace_file(partial, final)
        fsync_path(self._folder)
        failpoint("run.renamed")

    def kept_steps(self, commits: Sequence[Commit]) -> set[int]:
        """Return the steps of the checkpoints that are kept, of these, which are ordered by step."""
        return {commit.step for commit in commits[-self._keep_last :]} | self.best_steps(commits)

    def best_steps(self, commits: Iterable[Commit]) -> set[int]:
        """Return the steps of the checkpoints that `keep_best` keeps, of these."""
        return {one.step for one in best_first(commits, self._best)[: self._keep_best]}

    def add(self, partial: Path, step: int) -> None:
        """Take a complete folder, downloaded with its `COMMIT.json`, as a step's checkpoint. Requires the run's lock.

        Args:
            partial: a folder in the directory of checkpoints.
            step: the number of updates done.
        """
        final = self._folder / checkpoint_name(step)
        if final.exists():
            self._set_aside(final, DAMAGED)
        partial.rename(final)
        fsync_path(self._folder)

    def _prune(self) -> None:
        """Delete the checkpoints that are no longer kept. Each is renamed first, so that no half of one looks valid."""
        found = self.committed()
        kept = self.kept_steps([checkpoint.commit for checkpoint in found])
        for one in found:
            if one.step not in kept:
                gone = self._folder / f"{PARTIAL}{one.folder.name}"
                one.folder.rename(gone)
                failpoint("run.unnamed")
                remove_tree(gone)
        for folder in self._folders(ASIDE):
            if step_of(folder) <= found[-1].step:
                remove_tree(folder)

    def _folders(self, mark: str = "") -> list[Path]:
        """Return the checkpoint folders by step, or those with a prefix (`DAMAGED`, `ASIDE`)."""
        pattern = re.compile(rf"{mark}(\d+-)?{_NAME}" if mark else _NAME)
        return sorted((path for path in self._listed() if pattern.fullmatch(path.name)), key=step_of)

    def _listed(self) -> list[Path]:
        """Return all folders in the directory of checkpoints; none if it does not exist."""

        def names() -> list[str]:
            with os.scandir(self._folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())

        fix = "repair the file system, then run the same command again"
        try:
            return [self._folder / name for name in retry_transient(names, self._folder, fix)]
        except OSError:
            return []

    def _set_aside(self, folder: Path, mark: str) -> Path:
        """Rename a folder to an unused name with a prefix, so that setting aside never deletes anything."""
        numbers = itertools.chain([""], (f"{number}-" for number in itertools.count(2)))
        names = (self._folder / f"{mark}{number}{folder.name}" for number in numbers)
        target = next(path for path in names if not path.exists())
        try:
            folder.rename(target)
            fsync_path(self._folder)
        except OSError as error:
            raise write_error(error, folder) from error
        return target

    def _check_owner(self, checkpoint: Checkpoint) -> Checkpoint:
        if not self.owns(checkpoint):
            fix = "move it out of this run's directory"
            raise MismatchError("this checkpoint belongs to another job", where=str(checkpoint.folder), fix=fix)
        return checkpoint


def _was_deleted(partial: Path, error: BaseException) -> bool:
    """Return whether an error is due to rank 0 having deleted the folder. Frameworks raise their own exceptions."""
    other = not isinstance(error, Exception) or (isinstance(error, OSError) and error.errno != errno.ENOENT)
    return not other and not partial.exists()


def _write_note(partial: Path, rank: int, error: BaseException | None = None) -> None:
    """Record that a rank has written its part, or why it could not."""
    path = partial / _NOTE.format(rank)
    with contextlib.suppress(OSError):  # the folder does not exist: rank 0 has failed before
        note = {
            "rank": rank,
            "error": "" if error is None else str(error) or type(error).__name__,
            "code": MachineError.exit_code if isinstance(error, MachineError) else JprepError.exit_code,
        }
        path.with_suffix(".new").write_bytes(msgspec.json.encode(note))
        path.with_suffix(".new").rename(path)


def _await_ranks(partial: Path, rank: Rank) -> None:
    """Wait for the notes of the other ranks, and delete them."""
    deadline = time.monotonic() + rank.timeout
    for other in range(1, rank.world):
        path = partial / _NOTE.format(other)
        while not exists_now(path):
            if time.monotonic() > deadline:
                raise MachineError(f"rank {other} did not save its part in time", where=str(partial), fix="see log.txt")
            time.sleep(0.01)
        note = msgspec.json.decode(retry_stale(path.read_bytes))
        if note["error"]:
            kind = MachineError if note["code"] == MachineError.exit_code else JprepError
            raise kind(f"rank {other} could not save its part: {note['error']}", where=str(partial))
        path.unlink()


def _as_disk_error(error: BaseException, partial: Path) -> JprepError | None:
    """Translate the error of a failed write. Frameworks raise their own exceptions, so free space is checked too."""
    if isinstance(error, OSError):
        return write_error(error, partial)
    return disk_full_error(partial) if isinstance(error, Exception) and not isinstance(error, JprepError) else None


def disk_full_error(folder: Path) -> JprepError | None:
    """Return the error of a full disk if hardly any space is left; None if there is space or it is unknown."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < _SPARE:
            return write_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    return None
