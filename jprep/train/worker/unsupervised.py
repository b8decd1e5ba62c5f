"""Ranks that no supervisor has started (torchrun, Slurm, a debugger): rank 0 decides where the run resumes.

Rank 0 holds the run's lock and writes its decision into `ranks/start`, which it keeps locked while it lives; the others
wait for it. A decision that nobody has locked is that of an earlier start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jprep.errors import MachineError
from jprep.io.atomic import write_error
from jprep.io.lock import hold_lock
from jprep.train.run.attempt import NO_ATTEMPT, RANKS, announce_attempt, is_lock_free
from jprep.train.run.checkpoints import CheckpointStore
from jprep.train.run.directory import LOCK
from jprep.train.run.resume import checkpoint_to_resume

_START = "start"
_PAUSE = 0.02  # seconds between two looks


class RunStart(msgspec.Struct, frozen=True):
    """What the ranks of one start have to know.

    Attributes:
        attempt: its name, which no other start has.
        resume: the name of the checkpoint's folder; "" to begin at step 0.
    """

    attempt: str
    resume: str


@contextlib.contextmanager
def lead_start(run: Path, checkpoints: CheckpointStore) -> Iterator[RunStart]:
    """Decide, as rank 0, where the run resumes; for the time of the block the run is locked and the decision holds.

    Raises:
        MachineError: another process trains there, a checkpoint cannot be read, the disk is full.
        InputError: the run has saved steps, and no whole checkpoint is left.
    """
    with hold_lock(run / LOCK):
        announce_attempt(run, NO_ATTEMPT)  # workers of a supervisor that is dead leave
        for stale in (run / RANKS).glob("agreed-*"):
            stale.unlink(missing_ok=True)
        checkpoints.clean()
        found = checkpoint_to_resume(run, checkpoints)
        start = RunStart(f"alone-{secrets.token_hex(8)}", found.folder.name if found else "")
        with _published(run / RANKS / _START, msgspec.json.encode(start)):
            yield start


def await_start(run: Path, patience: float) -> RunStart:
    """Return what rank 0 has decided, as another rank.

    Args:
        run: the run directory.
        patience: seconds to wait for it: rank 0 reads a whole checkpoint before it decides.

    Raises:
        MachineError: rank 0 does not start.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), (run / RANKS / _START).open("rb") as file:
            if not is_lock_free(file.fileno()):
                return msgspec.json.decode(file.read(), type=RunStart)
        time.sleep(_PAUSE)
    raise MachineError("rank 0 has not started this run", where=str(run), fix="see what rank 0 printed")


@contextlib.contextmanager
def _published(path: Path, data: bytes) -> Iterator[None]:
    """Hold a locked file for the time of the block; it gets its name when it is whole and locked."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(exist_ok=True)
        handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise write_error(error, path) from error
    try:
        try:
            os.write(handle, data)
            fcntl.flock(handle, fcntl.LOCK_EX)
            new.rename(path)
        except OSError as error:
            raise write_error(error, path) from error
        yield
    finally:
        os.close(handle)
