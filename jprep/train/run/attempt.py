"""Which start of a run a process belongs to, whether it is still wanted, what its ranks agree on: by files only.

The supervisor holds the lock on `LOCK` and writes the attempt's name into it. A rank looks at it now and then: where
the lock is free the supervisor is dead, and where another name stands the attempt is over; the rank leaves. This
needs no pipe and no parent, which launchers between the two would cut. Each rank holds a lock on its own file in
`ranks/`, which has its process id and its machine: so the supervisor knows who is there, whoever started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from jprep.errors import JprepError, MachineError
from jprep.io.atomic import write_error
from jprep.io.machine import process_namespace
from jprep.io.retry import retry_transient

ATTEMPT, RESUME = "JPREP_ATTEMPT", "JPREP_RESUME"
"""Variables of a worker: its attempt's name, and the checkpoint that it goes on from (a name, or "" for none)."""

RANKS = "ranks"
NO_ATTEMPT = "nobody"
"""The name of no attempt."""

FATAL_EXIT_CODES = (2, 3, 4)
"""Exit codes of a worker that no restart mends."""

_EVERY = 0.25  # seconds between two looks
_PATIENCE = 5.0  # seconds for a look of the supervisor's to pass
_ELSEWHERE = 180.0  # seconds: a network file system keeps the locks of a machine that is lost for its lease's time


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask to leave. SIGHUP is none where it was ignored before: `nohup` does that."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return signal.SIGTERM, signal.SIGINT, *hang_up


def announce_attempt(run: Path, attempt: str) -> None:
    """Write the attempt's name into LOCK, which this process has locked. Of one length: it is never half there.

    Raises:
        MachineError: it cannot be written.
    """
    path = run / "LOCK"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, f"{attempt:<63}\n".encode(), 0)
        finally:
            os.close(handle)
    except OSError as error:
        raise write_error(error, path) from error


def is_current_attempt(run: Path, attempt: str) -> bool:
    """Whether the attempt is the run's, and its supervisor lives."""
    try:
        with (run / "LOCK").open("rb") as file:
            return file.read().strip() == attempt.encode() and not is_lock_free(file.fileno())
    except FileNotFoundError:
        return False


class AttemptWatch:
    """A thread that ends this process, with its group, when the attempt is over or the supervisor is dead."""

    def __init__(self, run: Path, attempt: str) -> None:
        self._run, self._attempt = run, attempt
        self._done = threading.Event()
        threading.Thread(target=self._watch, name="jprep-watch", daemon=True).start()

    def _watch(self) -> None:
        missed = 0
        while missed < 2 and not self._done.wait(_EVERY):
            with contextlib.suppress(OSError):  # a file system's bad moment is no reason to leave
                missed = 0 if is_current_attempt(self._run, self._attempt) else missed + 1
        if missed == 2:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def close(self) -> None:
        """Stop watching."""
        self._done.set()


class RankLock:
    """A rank's file in `ranks/`, locked as long as the process lives.

    Raises:
        JprepError: another process has this rank. The run may well go on with that one.
        MachineError: the file cannot be written.
    """

    def __init__(self, run: Path, rank: int) -> None:
        path = run / RANKS / f"rank-{rank:05d}"
        try:
            path.parent.mkdir(exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            deadline = time.monotonic() + _PATIENCE
            while not _taken(self._handle):
                if time.monotonic() > deadline:
                    os.close(self._handle)
                    raise JprepError(f"another process is rank {rank} of this run", where=str(run), fix="wait for it")
                time.sleep(0.02)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()} {process_namespace()}\n".encode(), 0)
        except OSError as error:
            raise write_error(error, path) from error

    def close(self) -> None:
        """Leave it."""
        os.close(self._handle)


def claim_process(run: Path, attempt: str, number: int) -> bool:
    """Take another machine's place in an attempt: only one process ever has it, as none can come in its stead.

    Args:
        run: the run directory.
        attempt: the attempt's name.
        number: of the process there.

    Returns:
        Whether this one has it.

    Raises:
        OSError: the run cannot be written to.
    """
    path = run / RANKS / f"joined-{attempt}-{number:05d}"
    path.parent.mkdir(exist_ok=True)
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    return True


class LiveRank(NamedTuple):
    """A rank that is there: its process, and the space of process ids that this one is in."""

    process: int
    space: str

    @property
    def host(self) -> str:
        """The name of its machine."""
        return self.space.partition("/")[0]


def live_ranks(run: Path) -> list[int]:
    """The process ids of the ranks that are there, on this machine."""
    return [rank.process for rank in _seated(run) if rank.space == process_namespace()]


def signal_ranks(run: Path, number: signal.Signals) -> int:
    """Send a signal to every rank on this machine; how many there were. Rank 0 decides for those on others."""
    ranks = live_ranks(run)
    for process in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    return len(ranks)


def clear_ranks(run: Path, patience: float = 30.0, elsewhere: float = _ELSEWHERE) -> None:
    """End every rank that is still there. Only under the run's lock; `announce(run, NOBODY)` comes first.

    Ranks on other machines see that, and end themselves.

    Args:
        run: the run directory.
        patience: seconds for ranks on this machine to go.
        elsewhere: seconds for those on others.

    Raises:
        MachineError: one does not go.
    """
    begun = time.monotonic()
    while left := _seated(run):
        here = signal_ranks(run, signal.SIGKILL)
        if time.monotonic() - begun > (patience if here else elsewhere):
            fix = f"end these processes: {', '.join(f'{rank.process} on {rank.host}' for rank in left)}"
            raise MachineError("workers of an earlier start do not leave", where=str(run), fix=fix)
        time.sleep(0.02)
    for path in (run / RANKS).glob("*"):
        path.unlink(missing_ok=True)


class Decision(NamedTuple):
    """What rank 0 wants after a step: a checkpoint because of the time, an end because of a signal."""

    save: bool = False
    stop: bool = False


class RankSync:
    """What all ranks do after a step: rank 0 decides, appends a line to a file, and the others wait for it.

    All ranks ask the same questions in the same order; with one rank there is no file.

    Args:
        run: the run directory.
        attempt: the attempt's name.
        rank: this process's.
        world: how many there are.
        patience: seconds to wait for rank 0.

    Raises:
        MachineError: the file cannot be made.
    """

    def __init__(self, run: Path, attempt: str, rank: int, world: int, patience: float) -> None:
        self._path = run / RANKS / f"agreed-{attempt}"
        self._rank, self._world, self._patience = rank, world, patience
        self._offset, self._rest, self._lines = 0, b"", deque[bytes]()
        if world > 1 and not rank:
            self._write("wb", b"")

    def on(self, question: str, wish: Decision) -> Decision:
        """Return what is agreed on.

        Args:
            question: what it is about, without a space: a step, or the word `best` and a step.
            wish: rank 0's.

        Raises:
            MachineError: rank 0 does not answer, or its answer cannot be written.
        """
        if self._world == 1:
            return wish
        if self._rank:
            return self._answer(question)
        self._write("ab", f"{question} {wish.save:d} {wish.stop:d}\n".encode())
        return wish

    def _write(self, mode: str, line: bytes) -> None:
        try:
            with self._path.open(mode, buffering=0) as file:
                file.write(line)
        except OSError as error:
            raise write_error(error, self._path) from error

    def _answer(self, question: str) -> Decision:
        """Wait for the line of a question. Each byte of the file is read once in the whole attempt."""
        deadline, pause = time.monotonic() + self._patience, 0.0005
        while True:
            while self._lines:
                asked, save, stop = self._lines.popleft().split()
                if asked == question.encode():
                    return Decision(save == b"1", stop == b"1")
            if not self._read_more():
                if time.monotonic() > deadline:
                    what = f"rank 0 did not answer for step {question.rpartition('-')[2]}"
                    raise MachineError(what, where=str(self._path), fix="see log.txt")
                time.sleep(pause)
                pause = min(2 * pause, 0.05)

    def _read_more(self) -> bool:
        """Take the lines that were added since the last call; whether there was one."""
        with contextlib.suppress(OSError), self._path.open("rb") as file:  # not there yet, or a bad moment of its disk
            file.seek(self._offset)
            data = file.read()
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(lines)
        return bool(self._lines)


def _seated(run: Path) -> list[LiveRank]:
    found = []
    for path in sorted((run / RANKS).glob("rank-*")):
        with retry_transient(path.open, path, "repair the file system, then run the same command again") as file:
            if not is_lock_free(file.fileno()) and (text := file.read().split()):
                found.append(LiveRank(int(text[0]), text[1]))
    return found


def is_lock_free(handle: int) -> bool:
    """Return whether nobody holds an exclusive lock on the file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
