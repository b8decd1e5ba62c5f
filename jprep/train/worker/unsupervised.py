"""Ranks started without a supervisor (torchrun, Slurm, a debugger): rank 0 decides where the run resumes.

Rank 0 holds the run's lock and writes its decision into `ranks/start`, which it keeps locked while it lives. The other
ranks wait for that file; an unlocked one is from an earlier start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jprep.errors import MachineError
from jprep.io.lock import LockWatch, flock_file, hold_lease, hold_lock
from jprep.io.os_errors import write_error
from jprep.io.shared.network_files import replace_file
from jprep.train.run.attempt import NO_ATTEMPT, announce_attempt
from jprep.train.run.checkpoints import CheckpointStore
from jprep.train.run.directory import LOCK
from jprep.train.run.ranks import RANKS
from jprep.train.run.resume import checkpoint_to_resume
from jprep.typed_json import decode_json

_START = "start"
_POLL_SECONDS = 0.02


class RunStart(msgspec.Struct, frozen=True):
    """How all ranks of one start begin.

    Attributes:
        attempt: the attempt's unique name.
        resume: the name of the checkpoint's folder; "" to start from the beginning.
    """

    attempt: str
    resume: str


@contextlib.contextmanager
def lead_start(run: Path, checkpoints: CheckpointStore) -> Iterator[RunStart]:
    """Decide, as rank 0, where the run resumes. The run stays locked, and the decision valid, during the block.

    Args:
        run: the run directory.
        checkpoints: the run's checkpoints.

    Raises:
        MachineError: another process trains there, a checkpoint cannot be read, or the disk is full.
        InputError: steps were saved, and no valid checkpoint is left.
    """
    with hold_lock(run / LOCK):
        announce_attempt(run, NO_ATTEMPT)  # workers of a dead supervisor exit
        for stale in (run / RANKS).glob("agreed-*"):
            stale.unlink(missing_ok=True)
        checkpoints.clean()
        found = checkpoint_to_resume(run, checkpoints)
        start = RunStart(f"alone-{secrets.token_hex(8)}", found.folder.name if found else "")
        with _published(run / RANKS / _START, msgspec.json.encode(start)):
            yield start


def await_start(run: Path, timeout: float) -> RunStart:
    """Return what rank 0 has decided; for the other ranks.

    Args:
        run: the run directory.
        timeout: seconds to wait for rank 0, which reads a whole checkpoint before it decides.

    Raises:
        MachineError: rank 0 does not start in time.
    """
    deadline, path = time.monotonic() + timeout, run / RANKS / _START
    lock = LockWatch(path)
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if lock.is_held():
                return decode_json(path.read_bytes(), RunStart)
        time.sleep(_POLL_SECONDS)
    raise MachineError("rank 0 has not started this run", where=str(run), fix="see the output of rank 0")


@contextlib.contextmanager
def _published(path: Path, data: bytes) -> Iterator[None]:
    """Hold a locked file during the block. It gets its name only when it is complete and locked."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(exist_ok=True)
        handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise write_error(error, path) from error
    try:
        try:
            os.write(handle, data)
            flock_file(handle, path)
            replace_file(new, path)
        except OSError as error:
            raise write_error(error, path) from error
        with hold_lease(path):  # after the rename: what others read under the lease is what it belongs to
            yield
    finally:
        os.close(handle)
