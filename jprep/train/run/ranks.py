"""The ranks of a run: each live process holds a lock on its own file in `ranks/`, with its process id and host.

So the supervisor knows which ranks are alive, whoever started them. Ranks on other hosts are watched where `flock` does
not reach that far (`jprep.io.lock`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from jprep.errors import JprepError, MachineError
from jprep.io.atomic import remove_file, remove_tree
from jprep.io.lock import LockedError, LockWatch, hold_lock, release_ended
from jprep.io.machine import process_namespace
from jprep.io.os_errors import write_error
from jprep.io.retry import retry_transient
from jprep.io.shared.network_files import create_exclusively

RANKS = "ranks"
"""The folder of the rank files in a run directory."""

_LOCK_TIMEOUT = 5.0  # seconds; the supervisor tests the lock for a moment now and then
_REMOTE_TIMEOUT = 180.0  # seconds; a network file system keeps the locks of a lost host until its lease expires
_LENGTH = 255  # bytes of what a rank's file holds, padded, so that a reader never sees half of it


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
        self._lock = contextlib.ExitStack()
        try:
            self._lock.enter_context(hold_lock(path, timeout=_LOCK_TIMEOUT, where=run, inheritable=False))
            self._write(path)
        except LockedError as error:
            what = f"another process is rank {rank} of this run"
            raise JprepError(what, where=str(run), fix="wait for it") from error
        except OSError as error:
            self._lock.close()
            raise write_error(error, path) from error

    def _write(self, path: Path) -> None:
        handle = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(handle, f"{f'{os.getpid()} {process_namespace()}':<{_LENGTH}}\n".encode(), 0)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Release the rank."""
        self._lock.close()


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
    return create_exclusively(path)


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
    return [rank.process for rank in _all_live_ranks(run, {}) if rank.namespace == process_namespace()]


def signal_ranks(run: Path, number: signal.Signals) -> int:
    """Send a signal to every rank on this host, and return how many there are. Rank 0 decides for other hosts."""
    ranks = live_ranks(run)
    for process in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    return len(ranks)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, and the group, and wait for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
    started, watches = time.monotonic(), dict[Path, LockWatch]()
    while alive := _all_live_ranks(run, watches):
        here = signal_ranks(run, signal.SIGKILL)
        if time.monotonic() - started > (timeout if here else remote_timeout):
            fix = f"kill these processes: {', '.join(f'{rank.process} on {rank.host}' for rank in alive)}"
            raise MachineError("workers of an earlier start do not exit", where=str(run), fix=fix)
        time.sleep(0.02)
    for path in (run / RANKS).glob("*"):
        remove_tree(path) if path.is_dir() else remove_file(path)


def release_ended_ranks(run: Path) -> None:
    """Release the ranks of this host whose processes have ended, so that the supervisor's host need not watch them."""
    for path in _rank_files(run):
        release_ended(path)


def _rank_files(run: Path) -> list[Path]:
    return sorted(path for path in (run / RANKS).glob("rank-*") if not path.suffix)


def _all_live_ranks(run: Path, watches: dict[Path, LockWatch]) -> list[LiveRank]:
    """Return the ranks that are not known to be dead.

    Args:
        run: the run directory.
        watches: what earlier calls have seen.
    """
    found = []
    for path in _rank_files(run):
        text = retry_transient(path.read_text, path, "repair the file system, then run the same command again").split()
        if watches.setdefault(path, LockWatch(path)).is_held() is not False and text:
            found.append(LiveRank(int(text[0]), text[1]))
    return found
