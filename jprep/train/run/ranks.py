"""The ranks of a run: each live process holds a lock on its own file in `ranks/`, with its process id and host.

So the supervisor knows which ranks are alive, whoever started them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from jprep.errors import JprepError, MachineError
from jprep.io.machine import process_namespace
from jprep.io.os_errors import write_error
from jprep.io.retry import retry_transient

RANKS = "ranks"
"""The folder of the rank files in a run directory."""

_LOCK_TIMEOUT = 5.0  # seconds; the supervisor tests the lock for a moment now and then
_REMOTE_TIMEOUT = 180.0  # seconds; a network file system keeps the locks of a lost host until its lease expires


class RankLock:
    """A rank's file in `ranks/`, locked as long as the process lives.

    Args:
        run: the run directory.
        rank: this process's rank.

    Raises:
        JprepError: another process has this rank. The run may continue with that one.
        MachineError: the file cannot be written.
    """

    def __init__(self, run: Path, rank: int) -> None:
        path = run / RANKS / f"rank-{rank:05d}"
        try:
            path.parent.mkdir(exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            self._acquire(run, rank)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()} {process_namespace()}\n".encode(), 0)
        except OSError as error:
            raise write_error(error, path) from error

    def _acquire(self, run: Path, rank: int) -> None:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while not _try_lock(self._handle):
            if time.monotonic() > deadline:
                os.close(self._handle)
                raise JprepError(f"another process is rank {rank} of this run", where=str(run), fix="wait for it")
            time.sleep(0.02)

    def close(self) -> None:
        """Release the rank."""
        os.close(self._handle)


def claim_process(run: Path, attempt: str, number: int) -> bool:
    """Claim the part of one process on another host in an attempt. Each part can be claimed once only.

    Args:
        run: the run directory.
        attempt: the attempt's name.
        number: the number of the process in the run.

    Returns:
        Whether this process has got it.

    Raises:
        OSError: the run directory cannot be written to.
    """
    path = run / RANKS / f"joined-{attempt}-{number:05d}"
    path.parent.mkdir(exist_ok=True)
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    return True


class LiveRank(NamedTuple):
    """A rank whose process is alive.

    Attributes:
        process: its process id.
        namespace: the host and the process namespace that the id belongs to.
    """

    process: int
    namespace: str

    @property
    def host(self) -> str:
        """The host's name."""
        return self.namespace.partition("/")[0]


def live_ranks(run: Path) -> list[int]:
    """Return the process ids of the live ranks on this host."""
    return [rank.process for rank in _all_live_ranks(run) if rank.namespace == process_namespace()]


def signal_ranks(run: Path, number: signal.Signals) -> int:
    """Send a signal to every rank on this host, and return how many there are. Rank 0 decides for other hosts."""
    ranks = live_ranks(run)
    for process in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    return len(ranks)


def clear_ranks(run: Path, timeout: float = 30.0, remote_timeout: float = _REMOTE_TIMEOUT) -> None:
    """Kill every live rank and delete the rank files. Requires the run's lock, and `announce_attempt(run, NO_ATTEMPT)`.

    Ranks on other hosts see that announcement and exit by themselves.

    Args:
        run: the run directory.
        timeout: seconds for ranks on this host to exit.
        remote_timeout: seconds for those on other hosts.

    Raises:
        MachineError: a rank does not exit.
    """
    started = time.monotonic()
    while alive := _all_live_ranks(run):
        here = signal_ranks(run, signal.SIGKILL)
        if time.monotonic() - started > (timeout if here else remote_timeout):
            fix = f"kill these processes: {', '.join(f'{rank.process} on {rank.host}' for rank in alive)}"
            raise MachineError("workers of an earlier start do not exit", where=str(run), fix=fix)
        time.sleep(0.02)
    for path in (run / RANKS).glob("*"):
        path.unlink(missing_ok=True)


def is_lock_free(handle: int) -> bool:
    """Return whether no process holds an exclusive lock on the file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _all_live_ranks(run: Path) -> list[LiveRank]:
    found = []
    for path in sorted((run / RANKS).glob("rank-*")):
        with retry_transient(path.open, path, "repair the file system, then run the same command again") as file:
            if not is_lock_free(file.fileno()) and (text := file.read().split()):
                found.append(LiveRank(int(text[0]), text[1]))
    return found


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
