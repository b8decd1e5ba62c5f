"""The record of the jobs that were submitted for a queue, in the queue's folder."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic
from jprep.io.verified_files import read_if_exists

JOBS = "jobs.json"

_log = logging.getLogger(__name__)


class Round(msgspec.Struct, frozen=True):
    """A job that was submitted for the tasks that were missing then.

    Attributes:
        job: its id.
        elements: the shares that it does.
        of: number of shares of the whole queue.
    """

    job: str
    elements: list[int]
    of: int


class Jobs(msgspec.Struct):
    """The jobs of a stage.

    Attributes:
        scheduler: the scheduler's name.
        queue: id of the queue that `rounds` belong to.
        rounds: the jobs, the newest last.
        missing: number of tasks that were missing before the newest round.
        attempts: number of rounds in succession in which tasks failed, or none was finished.
        next: id of the job that runs the command again after the last round; "" if a command waits.
    """

    scheduler: str
    queue: str = ""
    rounds: list[Round] = []
    missing: int = 0
    attempts: int = 0
    next: str = ""

    @property
    def ids(self) -> list[str]:
        """The ids of jobs that may be alive."""
        last = [self.rounds[-1].job] if self.rounds else []
        return [*last, *([self.next] if self.next else [])]


def read_jobs(folder: Path) -> Jobs | None:
    """Read the record; None if there is none, or if it is damaged: then a warning is logged.

    Raises:
        MachineError: it cannot be read.
    """
    path = folder / JOBS
    if (data := read_if_exists(path)) is None:
        return None
    try:
        return decode_checksummed(data, Jobs)
    except ValueError as error:
        _log.warning("%s is damaged (%s): jobs that it named are not found again", path, error)
        return None


def write_jobs(folder: Path, jobs: Jobs) -> None:
    """Write the record.

    Raises:
        MachineError: the disk is full or not writable.
    """
    write_atomic(folder / JOBS, encode_checksummed(jobs))
