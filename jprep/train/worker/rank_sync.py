"""Let all ranks of a run do the same after each step: rank 0 decides and the others read its decision from a file."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError, MachineError
from jprep.io.os_errors import write_error
from jprep.train.job.config import Job
from jprep.train.run.ranks import RANKS


class Decision(NamedTuple):
    """What rank 0 decides after a step.

    Attributes:
        save: whether a checkpoint is due by time, or because its loss is among the best.
        stop: whether the run stops, because of a signal.
    """

    save: bool = False
    stop: bool = False


@dataclass
class DueActions:
    """What to do after a step, in this order.

    Attributes:
        log: log the metrics.
        validate: measure the metrics of the validation split.
        checkpoint: save. `validated` sets it if the loss is among the best, so read it after that.
        stop: the run is being stopped; `batches` ends after this step.
    """

    log: bool
    validate: bool
    checkpoint: bool
    stop: bool


class RankSync:
    """Shares rank 0's decisions: it appends a line to a file for each, and the other ranks wait for that line.

    All ranks ask the same questions in the same order. With a single rank there is no file.

    Args:
        run: the run directory.
        attempt: the attempt's name.
        rank: this process's rank.
        world: the number of ranks.
        timeout: seconds to wait for rank 0.

    Raises:
        MachineError: the file cannot be created.
    """

    def __init__(self, run: Path, attempt: str, rank: int, world: int, timeout: float) -> None:
        self._path = run / RANKS / f"agreed-{attempt}"
        self._rank, self._world, self._timeout = rank, world, timeout
        self._offset, self._rest, self._lines = 0, b"", deque[bytes]()
        if world > 1 and not rank:
            self._write("wb", b"")

    def decide(self, question: str, decision: Decision) -> Decision:
        """Return rank 0's decision.

        Args:
            question: what it is about, without a space: a step, or `best-` and a step.
            decision: this rank's; that of rank 0 counts.

        Raises:
            MachineError: rank 0 does not answer in time, or its decision cannot be written.
        """
        if self._world == 1:
            return decision
        if self._rank:
            return self._await_answer(question)
        self._write("ab", f"{question} {decision.save:d} {decision.stop:d}\n".encode())
        return decision

    def _write(self, mode: str, line: bytes) -> None:
        try:
            with self._path.open(mode, buffering=0) as file:
                file.write(line)
        except OSError as error:
            raise write_error(error, self._path) from error

    def _await_answer(self, question: str) -> Decision:
        """Wait for the line that answers a question. Each byte of the file is read once per attempt."""
        deadline, pause = time.monotonic() + self._timeout, 0.0005
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
        """Read the lines appended since the last call, and return whether there are any to look at."""
        with contextlib.suppress(OSError), self._path.open("rb") as file:  # not created yet, or a transient error
            file.seek(self._offset)
            data = file.read()
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(lines)
        return bool(self._lines)


def check_ranks(job: Job, rank: int, world: int) -> None:
    """Refuse a batch that cannot be divided among the ranks, or a rank that does not exist.

    Raises:
        ConfigError: the batch cannot be divided.
    """
    if world < 1 or not 0 <= rank < world or job.train.batch % world:
        what = f"a batch of {job.train.batch} rows cannot be divided for rank {rank} of {world}"
        raise ConfigError(what, fix="set train.batch to a multiple of the number of processes")
