"""Mirror a run: copy its checkpoints, events and log to a URL in the background, and resume it from there.

The supervisor's process copies; the worker knows nothing of it. Errors are reported and tried again, and never stop the
training.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from jprep.errors import DamagedError
from jprep.io.atomic import remove_tree
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.commit import COMMIT, Commit
from jprep.train.run.data_lock import DATA_LOCK
from jprep.train.run.directory import ENVIRONMENT, JOB, checkpoints_of, run_directory
from jprep.train.run.events import EVENTS
from jprep.train.run.log import LOG, Say, on_stderr
from jprep.train.trackers.tensorboard import TENSORBOARD
from jprep.train.uploads.mirrored_run import MirroredRun
from jprep.train.uploads.ownership import Ownership
from jprep.train.uploads.restore import restore_run

STAGED = ".mirror"
"""The folder of a run with hard links to the files that are being copied, and the token of the mirror's owner."""

_TOKEN = "owner"
_POLL_SECONDS = 1.0
_TAIL_SECONDS = 30.0  # at least, between two copies of the growing files
_TAIL_SHARE = 20.0  # copying them takes at most this part of the time
_LONGEST_PAUSE = 300.0
_LAST_PAUSES = (5.0, 5.0, 0.0)  # after failures at the end of the training


@contextlib.contextmanager
def open_mirror(run: Path, job: Job, say: Say) -> Iterator[Mirror | None]:
    """Claim the mirror of a run, restore the run from it if it is ahead, and yield it; None if the job has none.

    Args:
        run: the run directory, which need not exist.
        job: the job.
        say: called with a message for the user.

    Raises:
        ConfigError: there is no such bucket, or nothing can be written to this kind of URL.
        MachineError: another machine trains the run of this mirror; or no credentials or rights.
        MismatchError: the mirror belongs to another job.
    """
    url = job.train.checkpoint.mirror
    if not url:
        yield None
        return
    with run_directory(run).claim():
        ownership = Ownership(url, run / STAGED / _TOKEN, say)
        try:
            damaged = restore_run(run, job, MirroredRun(url), say)
        except BaseException:
            ownership.release()
            raise
    try:
        yield Mirror(run, job, MirroredRun(url), ownership, say, damaged)
    finally:
        ownership.release()


class Mirror:
    """The mirror of a run that is being trained.

    Args:
        run: the run directory.
        job: the job.
        mirrored: the copy.
        ownership: the right to write to it.
        say: called with a message for the user.
        damaged: the steps of checkpoints in the mirror that are damaged.
    """

    def __init__(
        self,
        run: Path,
        job: Job,
        mirrored: MirroredRun,
        ownership: Ownership,
        say: Say = on_stderr,
        damaged: Collection[int] = (),
    ) -> None:
        self._run, self._mirrored, self._ownership, self._say = run, mirrored, ownership, say
        self._deleted = set(damaged)  # at the start
        self._rewound = False
        self._store = checkpoints_of(run, job)
        self._committed: dict[int, Commit] | None = None  # in the mirror
        self._seen: dict[str, tuple[int, int]] = {}  # file → size and time when it was copied
        self._next_tail = 0.0
        self._problem = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._copy_until_closed, name="jprep-mirror", daemon=True)

    def start(self, *, rewound: bool = False) -> None:
        """Begin to copy. Requires the run's lock, which must be held until `close` has returned.

        Args:
            rewound: whether the user has set aside the run's later checkpoints, which are then deleted in the mirror.
        """
        self._rewound = rewound
        remove_tree(self._run / STAGED)
        self._ownership.remember()
        self._thread.start()

    def close(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Copy what is left, and stop.

        Args:
            hurry: returns whether the user does not want to wait.
        """
        self._closing.set()
        told = time.monotonic() + _POLL_SECONDS
        while self._thread.is_alive() and not hurry():
            self._thread.join(0.05)
            if time.monotonic() > told:
                told = float("inf")
                self._say(f"copying the last checkpoint to {self._mirrored.url}")
        if not self._thread.is_alive():
            remove_tree(self._run / STAGED)

    def _copy_until_closed(self) -> None:
        pause = 0.0
        while not self._closing.wait(max(_POLL_SECONDS, pause)):
            pause = min(_LONGEST_PAUSE, max(2 * pause, 5.0)) if not self._try(self._copy_changes) else 0.0
        for pause in _LAST_PAUSES:
            if self._try(self._copy_everything) or self._ownership.lost:
                return
            time.sleep(pause)
        self._say(f"the mirror is incomplete; run the same command again to complete it\n  where: {self._mirrored.url}")

    def _try(self, copy: Callable[[], None]) -> bool:
        """Copy; report an error once, and return whether there was none."""
        try:
            copy()
        except Exception as error:  # whatever a store's library raises
            if self._problem != str(error):
                self._problem = str(error)
                self._say(f"the mirror is not up to date, and the training continues: {error}")
            return False
        if self._problem:
            self._problem = ""
            self._say(f"the mirror is up to date again\n  where: {self._mirrored.url}")
        return True

    def _copy_changes(self) -> None:
        self._copy_checkpoints()
        if time.monotonic() >= self._next_tail:
            began = time.monotonic()
            self._copy_tail()
            self._next_tail = began + max(_TAIL_SECONDS, _TAIL_SHARE * (time.monotonic() - began))

    def _copy_everything(self) -> None:
        self._copy_checkpoints()
        self._copy_tail()

    def _copy_checkpoints(self) -> None:
        """Copy the checkpoints that are kept and not yet copied, the newest first, and delete those not kept."""
        if self._committed is None:
            self._begin()
        while checkpoint := self._next_checkpoint():
            self._copy_checkpoint(checkpoint)
            self._delete_others()

    def _next_checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint that is kept and not yet copied."""
        committed, local = self._committed or {}, {one.step: one for one in self._store.committed()}
        known = committed | {step: one.commit for step, one in local.items()}
        kept = self._store.kept_steps([known[step] for step in sorted(known)])
        due = (local[step] for step in sorted(kept & local.keys(), reverse=True))
        return next((one for one in due if committed.get(one.step) != one.commit), None)

    def _begin(self) -> None:
        """Find out what the mirror has, copy the job, and delete what is damaged or what the user has rewound."""
        committed = self._mirrored.committed()
        newest = max((one.step for one in self._store.committed()), default=0)
        for name in (DATA_LOCK, JOB):
            self._mirrored.upload(self._run / name, name)
        for step in self._deleted | {step for step in committed if self._rewound and step > newest}:
            self._mirrored.delete_checkpoint(step)
            committed.pop(step, None)
        self._committed = committed

    def _copy_checkpoint(self, checkpoint: Checkpoint) -> None:
        folder = self._run / STAGED / checkpoint.folder.name
        try:
            _link(checkpoint, folder)
        except FileNotFoundError as error:
            if not checkpoint.folder.exists():  # it was deleted meanwhile: there is a newer one
                return
            fix = f"restore it; or delete {checkpoint.folder}"
            raise DamagedError("a file of this checkpoint is missing", where=str(error.filename), fix=fix) from error
        try:
            self._mirrored.upload_checkpoint(folder, checkpoint.commit, self._before_commit)
        finally:
            remove_tree(folder)
        self._committed = (self._committed or {}) | {checkpoint.step: checkpoint.commit}

    def _before_commit(self) -> None:
        """Copy the events first: a run that resumes from this checkpoint has those of its earlier steps."""
        self._copy_tail()
        self._ownership.check()

    def _delete_others(self) -> None:
        committed = self._committed or {}
        kept = self._store.kept_steps([committed[step] for step in sorted(committed)])
        for step in committed.keys() - kept:
            self._mirrored.delete_checkpoint(step)
        self._committed = {step: commit for step, commit in committed.items() if step in kept}

    def _copy_tail(self) -> None:
        """Copy the growing files that have changed, each as it is at this moment, up to its last whole line."""
        self._ownership.check()
        for name in (ENVIRONMENT, LOG, TENSORBOARD, EVENTS):
            path = self._run / name
            with contextlib.suppress(FileNotFoundError):
                look = (path.stat().st_size, path.stat().st_mtime_ns)
                if look != self._seen.get(name):
                    self._mirrored.upload(_snapshot(path, self._run / STAGED / path.name), name)
                    self._seen[name] = look


def _link(checkpoint: Checkpoint, folder: Path) -> None:
    """Make a folder with a checkpoint's files, which stay when the checkpoint is deleted."""
    remove_tree(folder)
    for name in (*checkpoint.commit.files, COMMIT):
        source, target = checkpoint.folder / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without hard links
            shutil.copyfile(source, target)


def _snapshot(path: Path, target: Path) -> Path:
    """Copy a file that others append to; of lines of text, only whole ones."""
    data = path.read_bytes()
    if path.suffix in (".jsonl", ".txt"):
        data = data[: data.rfind(b"\n") + 1]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


@contextlib.contextmanager
def mirroring(mirror: Mirror | None, stops: Callable[[], int], *, rewound: bool) -> Iterator[None]:
    """Copy a run for the duration of the block, and what is left after it, until a further stop signal.

    Args:
        mirror: where to; None copies nothing.
        stops: returns the number of stop signals so far.
        rewound: whether later checkpoints of the mirror are deleted first.
    """
    if mirror is None:
        yield
        return
    mirror.start(rewound=rewound)
    try:
        yield
    finally:
        before = stops()
        mirror.close(lambda: stops() > before)
