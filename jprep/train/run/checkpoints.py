"""Checkpoints: whole and told by `COMMIT.json`, or not there. `docs/runs.md` has the protocol."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import ConfigError, JprepError, MachineError, MismatchError
from jprep.io.atomic import file_sha256, fsync_path, remove_tree, write_error
from jprep.io.failpoints import failpoint
from jprep.io.retry import retry_transient
from jprep.train.run.commit import (
    COMMIT,
    CheckpointFile,
    Commit,
    checkpoint_name,
    files_of,
    find_checkpoint_damage,
    read_commit,
    step_of,
)

PARTIAL, DAMAGED, ASIDE = "partial-", "damaged-", "aside-"
"""Prefixes of folders that are no checkpoints: being filled or deleted, damaged, set aside by `--resume`.

Of several damaged or set-aside folders of one step the second is `damaged-2-step-…`, the third `damaged-3-step-…`.
"""

_NAME = r"step-\d{8,}"
_NOTE = ".rank-{:05d}.json"
_SPARE = 16 << 20  # bytes; a disk with less is taken for full where a framework does not say why it cannot write


class Checkpoint(NamedTuple):
    """A committed checkpoint: its folder, and what COMMIT says of it."""

    folder: Path
    commit: Commit

    @property
    def step(self) -> int:
        """How many updates were done."""
        return self.commit.step


class Rank(NamedTuple):
    """One of the processes that write a checkpoint together; and how long, in seconds, it waits for the others."""

    rank: int = 0
    world: int = 1
    patience: float = 1800.0


SINGLE_RANK = Rank()


class BestLosses:
    """The lowest validation losses of a run: those whose checkpoints `keep_best` keeps.

    Args:
        losses: of the checkpoints that exist.
        number: how many are kept.
    """

    def __init__(self, losses: Iterable[float], number: int) -> None:
        self._number = number
        self._losses = sorted(losses)[:number]

    def beaten_by(self, loss: float) -> bool:
        """Return whether a checkpoint of this loss would be kept. Of equal losses the first is good enough."""
        return len(self._losses) < self._number or bool(self._losses and loss < self._losses[-1])

    def add(self, loss: float) -> None:
        """Take the loss of a checkpoint that is going to be saved, or of one that is not and does not count."""
        self._losses = sorted([*self._losses, loss])[: self._number]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: where they are.
        job: the job's fingerprint.
        keep_last: how many of the newest are kept; at least one.
        keep_best: how many are kept beside them, those with the lowest validation loss.
        earlier: fingerprints of jobs that this one continues.
    """

    def __init__(
        self, folder: Path, job: str, keep_last: int = 2, keep_best: int = 0, earlier: Collection[str] = ()
    ) -> None:
        self._folder, self._job, self._earlier = folder, job, earlier
        self._keep_last, self._keep_best = max(1, keep_last), keep_best

    def committed(self) -> list[Checkpoint]:
        """Return those whose COMMIT is whole, by step; their files are not read.

        Raises:
            MachineError: a COMMIT or the directory cannot be read.
        """
        found = ((folder, read_commit(folder)) for folder in self._folders())
        return [Checkpoint(folder, commit) for folder, commit in found if isinstance(commit, Commit)]

    def damaged(self) -> list[tuple[Path, str]]:
        """Return the folders whose COMMIT is missing or damaged, by step, and what is wrong with each.

        Raises:
            MachineError: a COMMIT or the directory cannot be read.
        """
        found = ((folder, read_commit(folder)) for folder in self._folders())
        return [(folder, commit) for folder, commit in found if isinstance(commit, str) and folder.exists()]

    def latest(self, told: Callable[[Path, str], None]) -> Checkpoint | None:
        """Return the newest one, all of its hashes checked; damaged ones are set aside. Only under the run's lock.

        A checkpoint that cannot be read is not taken for a damaged one: the error is raised, and it stays in its place.

        Args:
            told: is given the new path of each damaged one, and what is wrong with it.

        Raises:
            MismatchError: it is another job's.
            MachineError: one cannot be read or renamed.
        """
        for folder in reversed(self._folders()):
            commit = read_commit(folder)
            problem = commit if isinstance(commit, str) else find_checkpoint_damage(folder, commit)
            if not problem and isinstance(commit, Commit):
                return self._ours(Checkpoint(folder, commit))
            told(self._set_aside(folder, DAMAGED), problem)
        return None

    def owns(self, checkpoint: Checkpoint) -> bool:
        """Return whether a checkpoint is of this job, or of one that it continues."""
        return checkpoint.commit.job in (self._job, *self._earlier)

    def best(self) -> BestLosses:
        """Return the losses that `keep_best` looks at."""
        return BestLosses((one.commit.loss or 0.0 for one in _measured(self.committed())), self._keep_best)

    def clean(self) -> None:
        """Delete what killed runs left: folders half filled or half deleted. Only under the lock."""
        for folder in self._listed():
            if folder.name.startswith(PARTIAL):
                remove_tree(folder)

    def rewind(self, step: int) -> None:
        """Set aside all that is after a step; 0 sets aside all. Only under the run's lock.

        What is set aside is kept until the run has saved that step or a later one.

        Raises:
            ConfigError: there is no checkpoint of that step.
        """
        steps = [one.step for one in self.committed()]
        if step and step not in steps:
            fix = f"there are: {', '.join(map(str, steps))}" if steps else "there are none"
            raise ConfigError(f"there is no checkpoint of step {step}", where=str(self._folder), fix=fix)
        for folder in self._folders():
            if step_of(folder) > step:
                self._set_aside(folder, ASIDE)

    @contextlib.contextmanager
    def saving(self, step: int, loss: float | None = None, rank: Rank = SINGLE_RANK) -> Iterator[Path]:
        """Give a folder to fill; at the end it is the checkpoint of a step, and those no longer kept are gone.

        Every rank fills the same folder, with files of different names; rank 0 commits when all have arrived. After an
        exception there is no such checkpoint, and all earlier ones are as they were.

        Raises:
            MachineError: the disk is full or not writable, or another rank does not arrive.
            JprepError: nothing was written, or another rank failed.
        """
        partial = self._folder / f"{PARTIAL}{checkpoint_name(step)}"
        try:
            partial.mkdir(parents=True, exist_ok=True)
            yield partial
            failpoint("run.filled")
            if rank.rank:
                _write_note(partial, rank.rank)
            else:
                _await(partial, rank)
                self._commit(partial, step, loss)
                self._prune()
        except BaseException as error:
            known = _disk_is_full(error, partial)
            if rank.rank and _is_gone(partial, error):
                raise JprepError("rank 0 has given up this checkpoint", where=str(partial)) from error
            if rank.rank:
                _write_note(partial, rank.rank, known or error)
            else:
                remove_tree(partial)
            if known:
                raise known from error
            raise

    def _commit(self, partial: Path, step: int, loss: float | None) -> None:
        final = self._folder / checkpoint_name(step)
        paths = files_of(partial)
        if not paths:
            raise JprepError("the worker wrote nothing into its checkpoint", where=str(final), fix="report it")
        for path in paths.values():
            fsync_path(path)
        files = {name: CheckpointFile(file_sha256(path), path.stat().st_size) for name, path in paths.items()}
        failpoint("run.hashed")
        commit = Commit(step=step, job=self._job, loss=loss, files=files).sealed()
        (partial / COMMIT).write_bytes(msgspec.json.format(msgspec.json.encode(commit), indent=1))
        for path in [partial / COMMIT, *(path for path in partial.rglob("*") if path.is_dir()), partial]:
            fsync_path(path)
        failpoint("run.committed")
        if isinstance(read_commit(final), Commit):  # the run was here before: the same step has the same weights
            remove_tree(partial)
            return
        if final.exists():
            self._set_aside(final, DAMAGED)
        partial.rename(final)
        fsync_path(self._folder)
        failpoint("run.renamed")

    def _prune(self) -> None:
        """Delete those that are no longer kept; each loses its name first, so that no half of one is ever believed."""
        found = self.committed()
        best = sorted(_measured(found), key=lambda one: (one.commit.loss, -one.step))[: self._keep_best]
        kept = {one.step for one in [*found[-self._keep_last :], *best]}
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
        """Return the checkpoints by step, or the folders that carry a mark."""
        pattern = re.compile(rf"{mark}(\d+-)?{_NAME}" if mark else _NAME)
        return sorted((path for path in self._listed() if pattern.fullmatch(path.name)), key=step_of)

    def _listed(self) -> list[Path]:
        """Return all folders in the directory of checkpoints, which need not exist."""

        def names() -> list[str]:
            with os.scandir(self._folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())

        fix = "repair the file system, then run the same command again"
        try:
            return [self._folder / name for name in retry_transient(names, self._folder, fix)]
        except OSError:
            return []

    def _set_aside(self, folder: Path, mark: str) -> Path:
        """Rename a folder. Its new name is one that nothing has: nothing is ever deleted by setting aside."""
        numbers = itertools.chain([""], (f"{number}-" for number in itertools.count(2)))
        names = (self._folder / f"{mark}{number}{folder.name}" for number in numbers)
        aside = next(path for path in names if not path.exists())
        try:
            folder.rename(aside)
            fsync_path(self._folder)
        except OSError as error:
            raise write_error(error, folder) from error
        return aside

    def _ours(self, checkpoint: Checkpoint) -> Checkpoint:
        if not self.owns(checkpoint):
            fix = "take it out of this run's folder"
            raise MismatchError("this checkpoint is another job's", where=str(checkpoint.folder), fix=fix)
        return checkpoint


def _measured(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints whose validation loss is known."""
    return [one for one in found if one.commit.loss is not None and math.isfinite(one.commit.loss)]


def _is_gone(partial: Path, error: BaseException) -> bool:
    """Whether an error is because rank 0 has deleted the folder; frameworks raise errors of their own."""
    other = not isinstance(error, Exception) or (isinstance(error, OSError) and error.errno != errno.ENOENT)
    return not other and not partial.exists()


def _write_note(partial: Path, rank: int, error: BaseException | None = None) -> None:
    """Say that a rank has done its part, or why it could not."""
    path = partial / _NOTE.format(rank)
    with contextlib.suppress(OSError):  # the folder is gone: rank 0 has failed before
        note = {
            "rank": rank,
            "error": "" if error is None else str(error) or type(error).__name__,
            "code": MachineError.exit_code if isinstance(error, MachineError) else JprepError.exit_code,
        }
        path.with_suffix(".new").write_bytes(msgspec.json.encode(note))
        path.with_suffix(".new").rename(path)


def _await(partial: Path, rank: Rank) -> None:
    """Wait for the other ranks' notes, and take them away."""
    deadline = time.monotonic() + rank.patience
    for other in range(1, rank.world):
        path = partial / _NOTE.format(other)
        while not path.exists():
            if time.monotonic() > deadline:
                raise MachineError(f"rank {other} did not save its part", where=str(partial), fix="see log.txt")
            time.sleep(0.01)
        note = msgspec.json.decode(path.read_bytes())
        if note["error"]:
            kind = MachineError if note["code"] == MachineError.exit_code else JprepError
            raise kind(f"rank {other} could not save its part: {note['error']}", where=str(partial))
        path.unlink()


def _disk_is_full(error: BaseException, partial: Path) -> JprepError | None:
    """What a failed write means; frameworks raise errors of their own, so the disk itself is asked too."""
    if isinstance(error, OSError):
        return write_error(error, partial)
    return disk_full_error(partial) if isinstance(error, Exception) and not isinstance(error, JprepError) else None


def disk_full_error(folder: Path) -> JprepError | None:
    """The error of a full disk, where it has hardly any room left; None where it has, or cannot be asked."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < _SPARE:
            return write_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    return None
