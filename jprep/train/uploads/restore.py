"""Restore a run from its mirror: on a machine whose disk has none of it, or less than the mirror."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from jprep.errors import DamagedError, MismatchError
from jprep.io.atomic import write_atomic
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import PARTIAL, CheckpointStore
from jprep.train.run.commit import Commit, checkpoint_name
from jprep.train.run.data_lock import DATA_LOCK
from jprep.train.run.directory import CHECKPOINTS, JOB, checkpoints_of, decode_job, same_or_longer_job
from jprep.train.run.events import EVENTS, record_event
from jprep.train.run.log import LOG, Say
from jprep.train.uploads.mirrored_run import MirroredCheckpoint, MirroredRun


def restore_run(run: Path, job: Job, mirror: MirroredRun, say: Say) -> set[int]:
    """Download what the mirror of a run has and the run directory lacks. Requires the run's lock.

    That is the newest valid checkpoint, those that `keep_best` keeps, the events and the log. `job.json` is written
    last, so an interrupted download is repeated, without the files that have arrived.

    Args:
        run: the run directory; it need not hold anything.
        job: the job that is going to be trained.
        mirror: the mirror.
        say: called with a message for the user.

    Returns:
        The steps of the mirror's checkpoints that are damaged, as far as they were read.

    Raises:
        MismatchError: the mirror belongs to another job, or the data has changed.
        ConfigError: its job.json is damaged.
        MachineError: it cannot be read, or the disk is full or not writable.
    """
    data = mirror.read(JOB)
    if data is None:
        return set()
    with _data_lock(run, mirror):
        job = same_or_longer_job(job, decode_job(data, mirror.url), run, say)
    store = checkpoints_of(run, job)
    newest = max((checkpoint.step for checkpoint in store.committed()), default=0)
    newer = [one for one in mirror.checkpoints() if one.step > newest]
    if not newer and (run / JOB).exists():
        return set()
    say(f"resuming the run from {mirror.url}")
    damaged = _Download(run, mirror, store, say).restore(newer)
    write_atomic(run / JOB, data)
    return damaged


@contextlib.contextmanager
def _data_lock(run: Path, mirror: MirroredRun) -> Iterator[None]:
    """Give the run its data lock for the block; if that fails, a downloaded one is deleted."""
    missing = not (run / DATA_LOCK).exists()
    if missing and not mirror.download(DATA_LOCK, run / DATA_LOCK):
        fix = "give the run another train.checkpoint.mirror"
        raise MismatchError(f"the mirror has no {DATA_LOCK}", where=mirror.url, fix=fix)
    try:
        yield
    except BaseException:
        if missing:
            (run / DATA_LOCK).unlink()
        raise


class _Download:
    """A download of a run."""

    def __init__(self, run: Path, mirror: MirroredRun, store: CheckpointStore, say: Say) -> None:
        self._run, self._mirror, self._store, self._say = run, mirror, store, say
        self._damaged: dict[int, str] = {}

    def restore(self, newer: list[MirroredCheckpoint]) -> set[int]:
        """Download the newest valid one of these checkpoints, others that are kept, the events and the log.

        Returns:
            The steps of damaged checkpoints.
        """
        valid = [one.commit for one in newer if isinstance(one.commit, Commit)]
        self._damaged |= {one.step: one.commit for one in newer if isinstance(one.commit, str)}
        found = next((commit for commit in reversed(valid) if self._checkpoint(commit)), None)
        if found:
            earlier = [commit for commit in valid if commit.step <= found.step]
            for commit in earlier:
                if commit is not found and commit.step in self._store.best_steps(earlier):
                    self._checkpoint(commit)
        for name in (EVENTS, LOG):
            self._mirror.download(name, self._run / name)
        self._report()
        return set(self._damaged)

    def _checkpoint(self, commit: Commit) -> bool:
        """Download a checkpoint; return whether it is valid."""
        name = checkpoint_name(commit.step)
        partial = self._run / CHECKPOINTS / f"{PARTIAL}{name}"
        try:
            self._mirror.download_checkpoint(commit, partial)
        except DamagedError as error:
            self._damaged[commit.step] = f"{error.what}: {error.where.removeprefix(self._mirror.url + '/')}"
            return False
        self._store.add(partial, commit.step)
        return True

    def _report(self) -> None:
        """Report the damaged checkpoints, as events and as messages."""
        for step, problem in sorted(self._damaged.items()):
            note = f"{checkpoint_name(step)} of the mirror is damaged and was not used: {problem}"
            record_event(self._run, "damaged", step, note=note)
            self._say(f"{note}\n  where: {self._mirror.checkpoint_url(step)}")
