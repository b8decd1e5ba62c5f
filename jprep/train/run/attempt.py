"""Attempts: one start of a run's workers. Every process learns from files whether its attempt is still the current one.

The supervisor holds the lock on `LOCK` and writes the attempt's name into it. Each rank polls that file: if the lock is
free, the supervisor is dead; if the file holds another name, the attempt is over. In both cases the rank exits. Files
are used instead of a pipe or the parent process because launchers between supervisor and worker would cut those.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

from jprep.errors import MachineError
from jprep.io.lock import LockWatch
from jprep.io.os_errors import write_error
from jprep.io.shared.network_files import retry_stale
from jprep.io.shared.ownership import check_ownership, checked, release_all
from jprep.train.run.directory import LOCK

ATTEMPT, RESUME, EVALUATE = "JPREP_ATTEMPT", "JPREP_RESUME", "JPREP_EVALUATE"
"""Environment variables of a worker: the attempt's name; the name of the checkpoint to resume from, or ""; the split to
measure with that checkpoint, without any training."""

NO_ATTEMPT = "nobody"
"""What `LOCK` holds while no attempt is running."""

FATAL_EXIT_CODES = (2, 3, 4)
"""Exit codes of a worker after which a restart is pointless."""

_POLL_SECONDS = 0.25


def announce_attempt(run: Path, attempt: str) -> None:
    """Write the attempt's name into `LOCK`, which this process has locked.

    The name is padded to a fixed length, so that a reader never sees half of it.

    Raises:
        MachineError: the file cannot be written, or another host has taken over the run.
    """
    path = run / LOCK
    check_ownership()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, f"{attempt:<63}\n".encode(), 0)
        finally:
            os.close(handle)
    except OSError as error:
        raise write_error(error, path) from error


def is_current_attempt(run: Path, attempt: str, lock: LockWatch | None = None, *, certain: bool = False) -> bool:
    """Return whether the run is in this attempt and its supervisor is alive.

    Args:
        run: the run directory.
        attempt: the attempt's name.
        lock: watches `LOCK`: whether a supervisor on another host is alive may be known only after some calls.
        certain: whether to return False as long as that is not known.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        if retry_stale((run / LOCK).read_bytes).strip() != attempt.encode():
            return False
    except FileNotFoundError:
        return False
    held = (lock or LockWatch(run / LOCK)).is_held()
    return not certain if held is None else held


class AttemptWatch:
    """A thread that kills this process and its group once the attempt is over or its supervisor is dead.

    Until then nothing is committed without a look at `LOCK`: a process that was suspended may be late.

    Args:
        run: the run directory.
        attempt: the attempt's name.
    """

    def __init__(self, run: Path, attempt: str) -> None:
        self._run, self._attempt, self.ownership_file = run, attempt, None
        self._lock, self._done, self._checked = LockWatch(run / LOCK), threading.Event(), contextlib.ExitStack()
        self._checked.enter_context(checked(self))
        threading.Thread(target=self._watch, name="jprep-watch", daemon=True).start()

    def _watch(self) -> None:
        missed = 0
        while missed < 2 and not self._done.wait(_POLL_SECONDS):
            with contextlib.suppress(OSError):  # a transient error of the file system is no reason to exit
                missed = 0 if is_current_attempt(self._run, self._attempt, self._lock) else missed + 1
        if missed == 2:
            releasing = threading.Thread(target=release_all, daemon=True)  # a file system may not answer
            releasing.start()
            releasing.join(_POLL_SECONDS)
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def check(self) -> None:
        """Raise MachineError if another attempt has begun; called before each commit."""
        with contextlib.suppress(OSError):
            if not is_current_attempt(self._run, self._attempt, self._lock):
                raise MachineError("this attempt is over", where=str(self._run), fix="see the end of log.txt")

    def give_up(self) -> None:
        """Do nothing: the attempt belongs to the supervisor."""

    def close(self) -> None:
        """Stop watching."""
        self._done.set()
        self._checked.close()
